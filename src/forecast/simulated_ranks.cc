#include "src/forecast/simulated_ranks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "src/cost/device_speed.h"
#include "src/cost/flow_classes.h"
#include "src/cost/route_collectives.h"
#include "src/parallel/axis.h"
#include "src/parallel/rank_classes.h"
#include "src/plan/rank_grid.h"
#include "src/scenario/node_kinds.h"

namespace stepcast::forecast {
namespace {

using program::ProcessGroup;

// What is known to tell ranks apart: their program and the speed of their device.
class Kinds {
 public:
  struct Kind {
    std::size_t lowered = 0;
    double speed = 1;
    const program::Program* program = nullptr;
    const cost::Prices* prices = nullptr;
  };

  Kinds(const scenario::Scenario& scenario, std::span<const PricedClass> lowered,
        std::deque<cost::Prices>& slowed) {
    const parallel::RankGrid grid = plan::GridsOf(scenario.plan).dense();
    for (std::size_t i = 0; i < lowered.size(); ++i) {
      kinds_.push_back({i, 1, &lowered[i].lowered.program, &lowered[i].prices});
    }
    const std::int64_t stages = grid.Degree(parallel::Axis::kPipeline);
    labels_.reserve(static_cast<std::size_t>(grid.ranks()));
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      labels_.push_back(scenario::KindOfRank(scenario, rank) * stages +
                        grid.At(rank)[static_cast<std::size_t>(parallel::Axis::kPipeline)]);
    }
    for (const scenario::SlowDevice& slow : scenario.slow_devices) {
      if (static_cast<std::size_t>(slow.rank) >= labels_.size() || slow.speed == 1) continue;
      std::int64_t& label = labels_[static_cast<std::size_t>(slow.rank)];
      const std::size_t own = Of(slow.rank).lowered;
      const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
        return kind.lowered == own && kind.speed == slow.speed;
      });
      label = known - kinds_.begin();
      if (known != kinds_.end()) continue;
      slowed.push_back(
          cost::AtSpeed(lowered[own].lowered.program, lowered[own].prices, slow.speed));
      kinds_.push_back({own, slow.speed, &lowered[own].lowered.program, &slowed.back()});
    }
  }

  const std::vector<std::int64_t>& labels() const { return labels_; }  // [rank]; equal: alike
  std::vector<cost::PricedKind> priced() const {
    std::vector<cost::PricedKind> kinds;
    for (const Kind& kind : kinds_) kinds.push_back({kind.program, kind.prices});
    return kinds;
  }
  const Kind& Of(int rank) const {
    return kinds_[static_cast<std::size_t>(labels_[static_cast<std::size_t>(rank)])];
  }

 private:
  std::vector<std::int64_t> labels_;
  std::vector<Kind> kinds_;
};

// All layouts of all programs, each once.
std::vector<parallel::GroupLayout> LayoutsOf(std::span<const PricedClass> lowered) {
  std::vector<parallel::GroupLayout> layouts;
  for (const PricedClass& own : lowered) {
    for (const ProcessGroup& group : own.lowered.program.groups) {
      if (std::find(layouts.begin(), layouts.end(), group.layout) == layouts.end()) {
        layouts.push_back(group.layout);
      }
    }
  }
  return layouts;
}

// Of meetings that begin with the groups of the layouts: the first of each colour stands for all.
class GroupsOfClasses {
 public:
  GroupsOfClasses(const std::vector<parallel::GroupLayout>& layouts,
                  const parallel::Classes& classes)
      : layouts_(layouts) {
    std::size_t meeting = 0;
    for (const parallel::GroupLayout& layout : layouts) {
      std::map<int, const std::vector<int>*>& stands = stands_.emplace_back();
      for (std::vector<int>& group : layout.Groups()) {
        const int first = group.front();
        const int colour = classes.meeting_colours[meeting++];
        const auto [known, added] = known_.try_emplace(colour);
        if (added) known->second = std::move(group);
        stands.emplace(first, &known->second);
      }
    }
  }

  // The groups of a class of ranks: all of its ranks are in groups of the same colours, in which
  // classes meet.
  std::vector<ProcessGroup> Of(const program::Program& program, int rank) const {
    std::vector<ProcessGroup> own = program.groups;
    for (ProcessGroup& group : own) {
      const auto layout = static_cast<std::size_t>(
          std::find(layouts_.begin(), layouts_.end(), group.layout) - layouts_.begin());
      group.ranks = *stands_[layout].at(group.layout.First(rank));
    }
    return own;
  }

 private:
  const std::vector<parallel::GroupLayout>& layouts_;
  std::map<int, std::vector<int>> known_;                       // by colour
  std::vector<std::map<int, const std::vector<int>*>> stands_;  // [layout], by first rank
};

bool SameRanks(const std::vector<ProcessGroup>& a, const std::vector<ProcessGroup>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return one.ranks == other.ranks; });
}

// One rank of each class, in the groups that stand for those of all its ranks.
void AddClasses(const parallel::Classes& classes, std::span<const std::int64_t> labels,
                std::span<const cost::PricedKind> kinds,
                const std::vector<parallel::GroupLayout>& layouts, SimulatedRanks& ranks) {
  const GroupsOfClasses groups(layouts, classes);
  for (const parallel::RankClass& own : classes.classes) {
    const auto label = labels[static_cast<std::size_t>(own.representative)];
    const cost::PricedKind& kind = kinds[static_cast<std::size_t>(label)];
    ranks.groups.push_back(groups.Of(*kind.program, own.representative));
    ranks.members.push_back(own.ranks);
    ranks.classes.push_back({.program = kind.program,
                             .prices = kind.prices,
                             .representative = own.representative,
                             .ranks = ranks.members.back(),
                             .groups = &ranks.groups.back(),
                             .records = false});
  }
}

}  // namespace

Result<SimulatedRanks> FlowRanksOf(const scenario::Scenario& scenario,
                                   std::span<const std::int64_t> labels,
                                   std::span<const cost::PricedKind> kinds,
                                   const std::vector<parallel::GroupLayout>& layouts) {
  auto flows = cost::FlowClassesOf(scenario, labels, kinds, layouts);
  if (!flows) return tl::unexpected(std::move(flows.error()));
  SimulatedRanks ranks;
  ranks.traffic.emplace(std::move(flows->traffic));
  AddClasses(flows->classes, labels, kinds, layouts, ranks);
  return ranks;
}

Result<SimulatedRanks> SimulatedRanksOf(const scenario::Scenario& scenario,
                                        std::span<const PricedClass> lowered, int steps) {
  SimulatedRanks ranks;
  const bool analytic = scenario.network == scenario::Fidelity::kAnalytic;
  if (analytic && scenario.slow_devices.empty() && lowered.size() == 1) {
    const PricedClass& all = lowered.front();
    ranks.classes.push_back(
        {.program = &all.lowered.program, .prices = &all.prices, .representative = 0});
    ranks.shown.push_back({.ranks = all.lowered.ranks});
    return ranks;
  }
  const Kinds kinds(scenario, lowered, ranks.slowed);
  const std::vector<parallel::GroupLayout> layouts = LayoutsOf(lowered);
  const parallel::Classes alike =
      parallel::ClassesOf(kinds.labels(), parallel::GroupMeetings(layouts), {});
  for (const parallel::RankClass& own : alike.classes) {
    const Kinds::Kind& kind = kinds.Of(own.representative);
    ranks.shown.push_back({.index = static_cast<std::size_t>(own.representative),
                           .lowered = kind.lowered,
                           .ranks = static_cast<int>(own.ranks.size()),
                           .members = own.ranks,
                           .speed = kind.speed});
  }
  if (scenario.network != scenario::Fidelity::kMessage) {
    std::optional<cost::FlowClasses> flows;
    if (!analytic) {
      auto made = cost::FlowClassesOf(scenario, kinds.labels(), kinds.priced(), layouts);
      if (!made) return tl::unexpected(std::move(made.error()));
      flows.emplace(*std::move(made));
      ranks.traffic.emplace(std::move(flows->traffic));
    }
    const parallel::Classes& classes = analytic ? alike : flows->classes;
    AddClasses(classes, kinds.labels(), kinds.priced(), layouts, ranks);
    for (SimulatedRanks::Shown& shown : ranks.shown) {
      shown.index = static_cast<std::size_t>(classes.class_of[shown.index]);
      ranks.classes[shown.index].records = true;
    }
    return ranks;
  }

  std::vector<cost::RoutedClass> routed;  // [rank]
  const auto count = static_cast<int>(kinds.labels().size());
  for (int rank = 0; rank < count; ++rank) {
    const Kinds::Kind& kind = kinds.Of(rank);
    const PricedClass& own = lowered[kind.lowered];
    std::vector<ProcessGroup> groups = lowering::GroupsOf(own.lowered.program, rank);
    const bool as_before = !ranks.groups.empty() && SameRanks(groups, ranks.groups.back());
    if (!as_before) ranks.groups.push_back(std::move(groups));
    routed.push_back({&own.lowered.program, &own.prices, &ranks.groups.back(), rank});
    const int of = alike.class_of[static_cast<std::size_t>(rank)];
    ranks.classes.push_back(
        {.program = &own.lowered.program,
         .prices = kind.prices,
         .representative = rank,
         .groups = &ranks.groups.back(),
         .records = alike.classes[static_cast<std::size_t>(of)].representative == rank});
  }
  auto traffic = cost::RouteCollectives(scenario, routed, steps);
  if (!traffic) return tl::unexpected(std::move(traffic.error()));
  ranks.traffic.emplace(std::move(*traffic));
  return ranks;
}

}  // namespace stepcast::forecast
