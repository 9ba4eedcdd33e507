#include "src/foreign/launcher.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "fmt/format.h"

namespace stepcast::foreign {
namespace {

// A number that the launcher's option states; a variable that is not known is nobody's mistake, for
// --nodes says the same.
std::optional<std::int64_t> Stated(const Reading& reading, std::string_view option) {
  const Setting* setting = reading.Stated(option);
  if (setting == nullptr || !setting->value.unknown.empty()) return std::nullopt;
  return setting->value.Integer();
}

}  // namespace

void ReadLauncher(Reading& reading) {
  const auto nodes = Stated(reading, "launcher.nnodes");
  if (nodes && *nodes > 0) {
    reading.Set("cluster.nodes", fmt::format("{}", *nodes), "launcher.nnodes");
  }
  const auto processes = Stated(reading, "launcher.nproc-per-node");
  const auto devices = reading.devices();
  if (nodes && processes && *nodes > 0 && *processes > 0 && devices) {
    // Another number of nodes on the command line holds for the script's processes, too.
    const std::int64_t started_on = reading.draft().Degree("cluster.nodes");
    const std::int64_t of_job = started_on * std::min<std::int64_t>(*processes, 10'000);
    if (of_job < *devices) {
      reading.Set("cluster.devices", fmt::format("{}", of_job), "launcher.nproc-per-node",
                  fmt::format("{} processes on each of {} nodes", *processes, started_on));
    } else if (of_job > *devices) {
      reading.draft().Note(
          fmt::format("the script starts {} processes; the cluster has {} GPUs", of_job, *devices));
    }
  }
  const std::string allocator = reading.Text("env.PYTORCH_CUDA_ALLOC_CONF");
  if (allocator.find("expandable_segments:True") != std::string::npos) {
    reading.Set("software.expandable_segments", "true", "env.PYTORCH_CUDA_ALLOC_CONF");
  }
}

}  // namespace stepcast::foreign
