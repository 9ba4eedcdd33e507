#include "src/scenario/job_devices.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"

namespace stepcast::scenario {
namespace {

std::int64_t FewestNodes(std::int64_t devices, std::int64_t gpus) {
  return (devices + gpus - 1) / gpus;
}

bool Equal(std::int64_t devices, std::int64_t gpus) {
  return devices % FewestNodes(devices, gpus) == 0;
}

// Groups of `tensor` ranks, one behind another, lie in one node each. Whole nodes are as they are.
bool GroupsInNodes(std::int64_t devices, std::int64_t gpus, std::int64_t tensor) {
  const std::int64_t nodes = FewestNodes(devices, gpus);
  const std::int64_t each = devices / nodes;
  return nodes == 1 || each == gpus || tensor > gpus || each % tensor == 0;
}

// "8 or 16": the nearest numbers that a job can have.
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
    return tl::unexpected(
        NoPlace{"scenario.too-many-devices",
                fmt::format("the topology has {} GPUs, cluster.devices is {}", all, devices),
                fmt::format("use at most {}, or more nodes", all)});
  }
  const std::int64_t nodes = FewestNodes(devices, topology.gpus);
  if (!Equal(devices, topology.gpus)) {
    return tl::unexpected(NoPlace{
        "scenario.unequal-nodes",
        fmt::format("a job has equally many GPUs of each node, and {} do not divide among {} nodes "
                    "of {}",
                    devices, nodes, topology.gpus),
        fmt::format("take {} GPUs", Nearest(devices, topology, tensor))});
  }
  const std::int64_t each = devices / nodes;
  if (!GroupsInNodes(devices, topology.gpus, tensor)) {
    return tl::unexpected(NoPlace{
        "scenario.split-tensor-group",
        fmt::format(
            "{} GPUs are {} of each of {} nodes: groups of tensor {} do not lie in one node",
            devices, each, nodes, tensor),
        fmt::format("take {} GPUs, or a degree that divides {}", Nearest(devices, topology, tensor),
                    each)});
  }
  return NodesOfGpus{nodes, each};
}

}  // namespace stepcast::scenario
