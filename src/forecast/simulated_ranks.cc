#include "src/forecast/simulated_ranks.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/cost/device_speed.h"
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
    const cost::Prices* prices = nullptr;
  };

  Kinds(const scenario::Scenario& scenario, std::span<const PricedClass> lowered,
        std::deque<cost::Prices>& slowed) {
    const parallel::RankGrid grid = plan::GridOf(scenario.plan);
    for (std::size_t i = 0; i < lowered.size(); ++i) kinds_.push_back({i, 1, &lowered[i].prices});
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
      kinds_.push_back({own, slow.speed, &slowed.back()});
    }
  }

  const std::vector<std::int64_t>& labels() const { return labels_; }  // [rank]; equal: alike
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

// The groups of each layout.
std::vector<std::vector<std::vector<int>>> GroupsOf(
    const std::vector<parallel::GroupLayout>& layouts) {
  std::vector<std::vector<std::vector<int>>> groups;
  for (const parallel::GroupLayout& layout : layouts) groups.push_back(layout.Groups());
  return groups;
}

// The groups of a class of ranks. All of its ranks are in groups of the same colours, and each
// colour is stood for by its first group, in which classes meet.
std::vector<ProcessGroup> GroupsOfClass(const program::Program& program,
                                        const std::vector<parallel::GroupLayout>& layouts,
                                        const std::vector<std::vector<std::vector<int>>>& all,
                                        const parallel::Classes& classes, int rank) {
  std::vector<ProcessGroup> own = program.groups;
  for (ProcessGroup& group : own) {
    const auto layout = static_cast<std::size_t>(
        std::find(layouts.begin(), layouts.end(), group.layout) - layouts.begin());
    const std::vector<std::vector<int>>& groups = all[layout];
    const std::vector<int>& colours = classes.group_colours[layout];
    const int first = group.layout.First(rank);
    std::size_t at = 0;
    while (groups[at].front() != first) ++at;
    std::size_t stands = 0;
    while (colours[stands] != colours[at]) ++stands;
    group.ranks = groups[stands];
  }
  return own;
}

bool SameRanks(const std::vector<ProcessGroup>& a, const std::vector<ProcessGroup>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return one.ranks == other.ranks; });
}

}  // namespace

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
  const std::vector<std::vector<std::vector<int>>> groups =
      analytic ? GroupsOf(layouts) : std::vector<std::vector<std::vector<int>>>();
  const parallel::Classes classes = parallel::ClassesOf(kinds.labels(), layouts, {}, {});
  for (const parallel::RankClass& own : classes.classes) {
    const int rank = own.representative;
    const Kinds::Kind& kind = kinds.Of(rank);
    ranks.shown.push_back(
        {.index = analytic ? ranks.classes.size() : static_cast<std::size_t>(rank),
         .lowered = kind.lowered,
         .ranks = static_cast<int>(own.ranks.size()),
         .members = own.ranks,
         .speed = kind.speed});
    if (!analytic) continue;
    const program::Program& program = lowered[kind.lowered].lowered.program;
    ranks.groups.push_back(GroupsOfClass(program, layouts, groups, classes, rank));
    ranks.classes.push_back({.program = &program,
                             .prices = kind.prices,
                             .representative = rank,
                             .ranks = ranks.shown.back().members,
                             .groups = &ranks.groups.back()});
  }
  if (analytic) return ranks;

  std::vector<cost::RoutedClass> routed;  // [rank]
  const auto count = static_cast<int>(kinds.labels().size());
  for (int rank = 0; rank < count; ++rank) {
    const Kinds::Kind& kind = kinds.Of(rank);
    const PricedClass& own = lowered[kind.lowered];
    std::vector<ProcessGroup> groups = lowering::GroupsOf(own.lowered.program, rank);
    const bool as_before = !ranks.groups.empty() && SameRanks(groups, ranks.groups.back());
    if (!as_before) ranks.groups.push_back(std::move(groups));
    routed.push_back({&own.lowered.program, &own.prices, &ranks.groups.back(), rank});
    const int of = classes.class_of[static_cast<std::size_t>(rank)];
    ranks.classes.push_back(
        {.program = &own.lowered.program,
         .prices = kind.prices,
         .representative = rank,
         .groups = &ranks.groups.back(),
         .records = classes.classes[static_cast<std::size_t>(of)].representative == rank});
  }
  auto traffic = cost::RouteCollectives(scenario, routed, steps);
  if (!traffic) return tl::unexpected(std::move(traffic.error()));
  ranks.traffic.emplace(std::move(*traffic));
  return ranks;
}

}  // namespace stepcast::forecast
