// Rules about states in host memory.
#include <string_view>

#include "fmt/format.h"
#include "src/plan/legality_rules.h"

namespace stepcast::plan {
namespace {

class OffloadRules : public Rules {
 public:
  using Rules::Rules;

  void CheckOffload() {
    if (request_.cpu_offload.value_or(false)) CheckCpuOffload();
    const bool offloads = request_.optimizer_cpu_offload.value_or(false);
    if (offloads) {
      CheckHostMemory("optimizer_cpu_offload");
      CheckOtherAxes("optimizer_cpu_offload");
    }
    if (request_.overlap_cpu_optimizer_d2h_h2d.value_or(false) && !offloads) {
      Add("data_parallel.overlap_cpu_optimizer_d2h_h2d", "plan.cpu-offload",
          "overlap_cpu_optimizer_d2h_h2d is true, but optimizer_cpu_offload is false",
          "write optimizer_cpu_offload: true, or omit overlap_cpu_optimizer_d2h_h2d");
    }
  }

 private:
  void CheckHostMemory(const char* key) {
    if (facts_.host_memory.value_or(true)) return;
    Add(fmt::format("data_parallel.{}", key), "plan.no-host-memory",
        fmt::format(
            "{} is true, but the cluster's topology does not describe the memory of its hosts",
            key),
        "choose a topology that describes hosts, such as --cluster dgx-h100 instead of --gpus. In "
        "your own topology file, add node.host with memory and memory_bandwidth");
  }

  // Data that ranks of other axes keep in a node's memory is not modelled.
  void CheckOtherAxes(const char* key) {
    if (request_.ranks_per_replica() == 1) return;
    Add(fmt::format("data_parallel.{}", key), "plan.axis-not-supported-with",
        fmt::format("{} is supported only with pure data parallelism, but tensor x pipeline x "
                    "context is {}",
                    key, request_.ranks_per_replica()),
        fmt::format("write 1 for tensor, pipeline and context, or write {}: false", key));
  }

  void CheckCpuOffload() {
    CheckHostMemory("cpu_offload");
    CheckOtherAxes("cpu_offload");
    if (request_.gradient_clipping) {
      Add("training.gradient_clipping", "plan.cpu-offload",
          fmt::format("clipping on the host is not modelled: cpu_offload is true and "
                      "gradient_clipping is {}",
                      *request_.gradient_clipping),
          "write gradient_clipping: none, or cpu_offload: false");
    }
  }
};

}  // namespace

void CheckOffload(const Request& request, const Facts& facts, std::vector<Violation>& violations) {
  OffloadRules(request, facts, violations).CheckOffload();
}

}  // namespace stepcast::plan
