#include "src/foreign/launcher.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace stepcast::foreign {
namespace {

// Options of torchrun, accelerate and DeepSpeed with the same meaning, in all their spellings.
constexpr std::string_view kNodes[] = {"launcher.nnodes", "launcher.num_machines",
                                       "launcher.num-machines", "launcher.num_nodes",
                                       "launcher.num-nodes"};
constexpr std::string_view kProcesses[] = {"launcher.nproc-per-node", "launcher.nproc_per_node",
                                           "launcher.num_gpus", "launcher.num-gpus"};

// The option that is stated as a number; null if there is none. An unknown variable is not a
// mistake, since --nodes can give the number.
const Setting* Stated(const Reading& reading, std::span<const std::string_view> options) {
  for (const std::string_view option : options) {
    const Setting* setting = reading.Stated(option);
    if (setting == nullptr || !setting->value.unknown.empty()) continue;
    if (setting->value.Integer().value_or(0) > 0) return setting;
  }
  return nullptr;
}

}  // namespace

void ReadLauncher(Reading& reading) {
  const Setting* nodes = Stated(reading, kNodes);
  if (nodes != nullptr) {
    reading.Set("cluster.nodes", fmt::format("{}", *nodes->value.Integer()), nodes->name);
  }
  const Setting* processes = Stated(reading, kProcesses);
  const auto devices = reading.devices();
  // Without a number of nodes, torchrun starts processes on one node, and other launchers on all.
  if (processes != nullptr && devices) {
    const std::int64_t of_node = *processes->value.Integer();
    // The number of nodes on the command line also applies to the script's processes.
    const std::int64_t started_on = reading.draft().Degree("cluster.nodes");
    const std::int64_t of_job = started_on * std::min<std::int64_t>(of_node, 10'000);
    if (of_job < *devices) {
      reading.Set("cluster.devices", fmt::format("{}", of_job), processes->name,
                  fmt::format("{} processes on each of {} nodes", of_node, started_on));
    } else if (of_job > *devices) {
      reading.draft().Note(fmt::format(
          "the script starts {} processes, but the cluster has {} GPUs", of_job, *devices));
    }
  }
  const std::string allocator = reading.Text("env.PYTORCH_CUDA_ALLOC_CONF");
  if (allocator.find("expandable_segments:True") != std::string::npos) {
    reading.Set("software.expandable_segments", "true", "env.PYTORCH_CUDA_ALLOC_CONF");
  }
}

}  // namespace stepcast::foreign
