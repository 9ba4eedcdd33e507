#include "src/cost/priced_machine.h"

#include <utility>

#include "src/cost/nccl_setting.h"
#include "src/cost/slowest_device.h"

namespace stepcast::cost {

using scenario::Scenario;

PricedMachine::PricedMachine(const scenario::Scenario& scenario, GroupLoads& group_loads)
    : cluster(scenario.cluster),
      calibration(scenario.calibration),
      gpu(scenario.gpu),
      algorithm(scenario.algorithm),
      nccl_algo(scenario.nccl_algo),
      nccl_proto(scenario.nccl_proto),
      collnet(scenario.nccl_collnet),
      analytic(scenario.network == scenario::Fidelity::kAnalytic),
      version(scenario.plan.software.nccl),
      driver(scenario.plan.software.driver),
      loads(group_loads) {
  auto setting = NcclSettingOf(scenario);
  if (!setting) return;
  setting->gpu = &*gpu;  // the scenario may not live as long
  nccl.emplace(std::move(*setting));
}

bool PricedMachine::IsOf(const scenario::Scenario& scenario) const {
  return cluster == scenario.cluster && calibration == scenario.calibration &&
         algorithm == scenario.algorithm && nccl_algo == scenario.nccl_algo &&
         nccl_proto == scenario.nccl_proto && collnet == scenario.nccl_collnet &&
         analytic == (scenario.network == scenario::Fidelity::kAnalytic) &&
         version == scenario.plan.software.nccl && driver == scenario.plan.software.driver;
}

const PricedMachine::Group& PricedMachine::GroupOf(const program::ProcessGroup& wanted,
                                                   int stage_ranks,
                                                   const std::optional<MessageRoute>& message) {
  // A handful; most differ in size.
  for (const auto& group : groups) {
    if (group->message == message && group->ranks == wanted.ranks &&
        group->layout == wanted.layout && group->stage_ranks == stage_ranks) {
      return *group;
    }
  }
  if (message) return AddMessages(wanted, stage_ranks, *message);
  const std::vector<int>& ranks = wanted.ranks;
  groups.push_back(std::make_unique<const Group>(
      Group{.ranks = ranks,
            .message = std::nullopt,
            .layout = wanted.layout,
            .stage_ranks = stage_ranks,
            .path = PathOf(ranks),
            .shape = nccl ? ShapeOf(ranks, cluster->gpus_per_node()) : GroupShape(),
            .communicator = {},
            .siblings = analytic ? std::make_unique<SiblingLinks>(*cluster, ranks, wanted.layout,
                                                                  stage_ranks, loads)
                                 : nullptr}));
  return *groups.back();
}

const PricedMachine::Group& PricedMachine::AddMessages(const program::ProcessGroup& group,
                                                       int stage_ranks,
                                                       const MessageRoute& message) {
  const auto pair_of = [](const std::vector<int>& ranks, int from, int to) {
    return std::vector<int>{ranks[static_cast<std::size_t>(from)],
                            ranks[static_cast<std::size_t>(to)]};
  };
  const auto pairs_of = [=](const std::vector<int>& ranks) {
    std::vector<std::vector<int>> pairs;
    if (!message.by_distance) return pairs = {pair_of(ranks, message.from, message.to)};
    const auto size = static_cast<int>(ranks.size());
    for (int from = 0; from < size; ++from) {
      pairs.push_back(pair_of(ranks, from, (from + message.to - message.from + size) % size));
    }
    return pairs;
  };
  const std::vector<int> ends =
      message.by_distance ? group.ranks : pair_of(group.ranks, message.from, message.to);
  groups.push_back(std::make_unique<const Group>(Group{
      .ranks = group.ranks,
      .message = message,
      .layout = group.layout,
      .stage_ranks = stage_ranks,
      .path = PathOf(ends),
      .shape = nccl ? ShapeOf(ends, cluster->gpus_per_node()) : GroupShape(),
      .communicator = nccl ? ShapeOf(group.ranks, cluster->gpus_per_node()) : GroupShape(),
      .siblings = analytic ? std::make_unique<SiblingLinks>(*cluster, group.ranks, group.layout,
                                                            stage_ranks, loads, pairs_of)
                           : nullptr}));
  return *groups.back();
}

// Flows and messages meet on links themselves.
topology::CommunicationPath PricedMachine::PathOf(const std::vector<int>& ranks) const {
  return cluster->PathOf(ranks, analytic ? topology::Cluster::Collisions::kExpected
                                         : topology::Cluster::Collisions::kIgnored);
}

const CollectivePrice* PricedMachine::Known(const program::Collective& collective,
                                            const Group& group) const {
  const auto found = collectives.find({collective.kind, collective.bytes, &group});
  return found == collectives.end() ? nullptr : &found->second;
}

void PricedMachine::Remember(const program::Collective& collective, const Group& group,
                             const CollectivePrice& price) {
  constexpr std::size_t kMostCollectives = 16'384;
  if (collectives.size() == kMostCollectives) collectives.clear();
  collectives.try_emplace({collective.kind, collective.bytes, &group}, price);
}

double PricedMachine::SlowestOf(std::int64_t devices) {
  if (devices != slowest_of) {
    slowest_of = devices;
    slowest = SlowestDevice(calibration->kernels->variation, devices);
  }
  return slowest;
}

}  // namespace stepcast::cost
