#include "src/scenario/slow_devices.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {
namespace {

// The rank of a device of the cluster, -1 where it is idle; none where there is no such device.
std::optional<int> RankOf(const std::string& name, const topology::Cluster& cluster, int nodes) {
  const auto number = [](std::string_view text, std::string_view word) -> std::optional<int> {
    int value = 0;
    if (!text.starts_with(word)) return std::nullopt;
    text.remove_prefix(word.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  };
  if (cluster.flat()) {
    const auto device = number(name, "device");
    return device && *device < cluster.devices() ? device : std::nullopt;
  }
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string_view text = name;
  const auto node = number(text.substr(0, slash), "node");
  const auto gpu = number(text.substr(slash + 1), "gpu");
  const int gpus = cluster.node_type()->Count(topology::DeviceKind::kGpu);
  if (!node || !gpu || *node >= nodes || *gpu >= gpus) return std::nullopt;
  if (*node >= cluster.nodes() || *gpu >= cluster.gpus_per_node()) return -1;
  return *node * cluster.gpus_per_node() + *gpu;
}

}  // namespace

std::vector<SlowDevice> FindSlowDevices(const std::vector<SlowDevice>& named,
                                        const topology::Cluster& cluster, int nodes,
                                        Diagnostics& diagnostics) {
  std::vector<SlowDevice> found;
  for (SlowDevice slow : named) {
    const auto rank = RankOf(slow.device, cluster, nodes);
    if (!rank) {
      diagnostics.push_back(
          {"scenario.no-device", slow.location,
           fmt::format("the cluster has no such device: '{}'", slow.device),
           cluster.flat()
               ? fmt::format("devices are device0 to device{}", cluster.devices() - 1)
               : fmt::format("devices are node0/gpu0 to node{}/gpu{}", nodes - 1,
                             cluster.node_type()->Count(topology::DeviceKind::kGpu) - 1)});
      continue;
    }
    if (*rank < 0) continue;  // idle
    slow.rank = *rank;
    const auto at =
        std::lower_bound(found.begin(), found.end(), slow,
                         [](const SlowDevice& a, const SlowDevice& b) { return a.rank < b.rank; });
    if (at != found.end() && at->rank == slow.rank) {
      diagnostics.push_back({"scenario.device-twice", slow.location,
                             fmt::format("this device stands here twice: '{}'", slow.device),
                             "give each device one speed"});
      continue;
    }
    found.insert(at, std::move(slow));
  }
  return found;
}

}  // namespace stepcast::scenario
