#include "src/scenario/job_devices.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/topology/cluster.h"
#include "src/topology/device.h"
#include "src/topology/node_type.h"

namespace stepcast::scenario {
namespace {

// The rank of a device of the cluster, -1 if it is idle; none if there is no such device.
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
           fmt::format("the cluster does not have this device: '{}'", slow.device),
           cluster.flat()
               ? fmt::format("write a name from device0 to device{}", cluster.devices() - 1)
               : fmt::format("write a name from node0/gpu0 to node{}/gpu{}", nodes - 1,
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
                             fmt::format("this device is listed twice: '{}'", slow.device),
                             "list each device only once"});
      continue;
    }
    found.insert(at, std::move(slow));
  }
  return found;
}

int KindCount(const Scenario& scenario) {
  return 1 + static_cast<int>(scenario.other_nodes.size());
}

int KindOfRank(const Scenario& scenario, int rank) {
  if (scenario.other_nodes.empty()) return 0;
  const int node = rank / scenario.cluster->gpus_per_node();
  int end = scenario.cluster->nodes();  // of the nodes before a kind, from the last
  for (int kind = KindCount(scenario) - 1; kind > 0; --kind) {
    end -= scenario.other_nodes[static_cast<std::size_t>(kind) - 1].nodes;
    if (node >= end) return kind;
  }
  return 0;
}

std::vector<int> KindsOf(const Scenario& scenario, std::span<const int> ranks) {
  std::vector<int> kinds;
  for (const int rank : ranks) kinds.push_back(KindOfRank(scenario, rank));
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

std::vector<topology::NodesOfType> NodesOf(const Scenario& scenario) {
  const auto alike = [](const topology::Cluster& cluster, int nodes) {
    const topology::Fabric* fabric = cluster.fabric();
    return topology::NodesOfType{cluster.node_type(),
                                 fabric == nullptr ? topology::LinkSpec() : fabric->link, nodes,
                                 cluster.gpus_per_node()};
  };
  int first = scenario.cluster->nodes();
  for (const KindOfNode& kind : scenario.other_nodes) first -= kind.nodes;
  std::vector<topology::NodesOfType> nodes = {alike(*scenario.cluster, first)};
  for (const KindOfNode& kind : scenario.other_nodes) {
    nodes.push_back(alike(*kind.cluster, kind.nodes));
  }
  return nodes;
}

Scenario OfKind(const Scenario& scenario, int kind) {
  STEPCAST_CHECK(kind >= 0 && kind < KindCount(scenario),
                 "the cluster must have this kind of node");
  Scenario own = scenario;
  own.other_nodes.clear();
  if (kind == 0) return own;
  const KindOfNode& nodes = scenario.other_nodes[static_cast<std::size_t>(kind) - 1];
  own.cluster = nodes.cluster;
  own.calibration = nodes.calibration;
  own.gpu = nodes.gpu;
  own.cluster_location = nodes.location;
  own.plan.training.dispatch = nodes.dispatch;
  return own;
}

namespace {

std::int64_t FewestNodes(std::int64_t devices, std::int64_t gpus) {
  return (devices + gpus - 1) / gpus;
}

bool Equal(std::int64_t devices, std::int64_t gpus) {
  return devices % FewestNodes(devices, gpus) == 0;
}

// Whether each group of `tensor` consecutive ranks is in one node. Whole nodes always pass.
bool GroupsInNodes(std::int64_t devices, std::int64_t gpus, std::int64_t tensor) {
  const std::int64_t nodes = FewestNodes(devices, gpus);
  const std::int64_t each = devices / nodes;
  return nodes == 1 || each == gpus || tensor > gpus || each % tensor == 0;
}

// "8 or 16": the nearest possible numbers of GPUs.
std::string Nearest(std::int64_t devices, const NodesOfGpus& topology, std::int64_t tensor) {
  const auto possible = [&](std::int64_t number) {
    return Equal(number, topology.gpus) && GroupsInNodes(number, topology.gpus, tensor);
  };
  std::int64_t above = devices + 1;
  while (!possible(above)) ++above;  // whole nodes at the latest
  std::int64_t below = devices - 1;
  while (!possible(below)) --below;
  const std::int64_t all = topology.nodes * topology.gpus;
  return above > all ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

}  // namespace

std::int64_t DevicesOfJob(const DevicesRequest& devices, const plan::Request& request,
                          std::int64_t all) {
  if (devices.count) return *devices.count;
  const std::int64_t replica = request.ranks_per_replica();
  const std::int64_t wanted = request.data.value_or(std::max<std::int64_t>(1, all / replica));
  return std::min(all, wanted * replica);
}

tl::expected<NodesOfGpus, NoPlace> PlaceJob(std::int64_t devices, const NodesOfGpus& topology,
                                            std::int64_t tensor) {
  const std::int64_t all = topology.nodes * topology.gpus;
  if (devices > all) {
    return tl::unexpected(NoPlace{
        "scenario.too-many-devices",
        fmt::format("the topology has only {} GPUs, but cluster.devices is {}", all, devices),
        fmt::format("use at most {} devices, or more nodes", all)});
  }
  const std::int64_t nodes = FewestNodes(devices, topology.gpus);
  if (!Equal(devices, topology.gpus)) {
    return tl::unexpected(
        NoPlace{"scenario.unequal-nodes",
                fmt::format("a job must use the same number of GPUs on each node, but {} GPUs "
                            "cannot be divided equally among {} nodes of {} GPUs",
                            devices, nodes, topology.gpus),
                fmt::format("set cluster.devices to {}", Nearest(devices, topology, tensor))});
  }
  const std::int64_t each = devices / nodes;
  if (!GroupsInNodes(devices, topology.gpus, tensor)) {
    return tl::unexpected(
        NoPlace{"scenario.split-tensor-group",
                fmt::format("with {} GPUs, the job uses {} GPUs on each of {} nodes, so groups of "
                            "{} tensor-parallel ranks would span nodes",
                            devices, each, nodes, tensor),
                fmt::format("use {} GPUs, or a tensor degree that divides {}",
                            Nearest(devices, topology, tensor), each)});
  }
  return NodesOfGpus{nodes, each};
}

}  // namespace stepcast::scenario
