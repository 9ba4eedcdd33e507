#include "src/forecast/simulated_ranks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/cost/collective_flows.h"
#include "src/cost/device_speed.h"
#include "src/lowering/lowering.h"
#include "src/parallel/rank_classes.h"
#include "src/plan/rank_grid.h"
#include "src/scenario/job_devices.h"

namespace stepcast::forecast {
namespace {

using program::ProcessGroup;

// Ranks by the properties that distinguish them: label, kind of node, and speed of the device.
class RankKinds {
 public:
  RankKinds(const scenario::Scenario& scenario, std::span<const PricedClass> priced,
            std::deque<cost::Prices>& slowed)
      : scenario_(scenario), labels_(scenario.plan) {
    for (std::size_t i = 0; i < priced.size(); ++i) {
      classes_.emplace_back(priced[i]).priced = i;
      kinds_.push_back({&priced[i].program, &priced[i].prices});
    }
    for (const scenario::SlowDevice& slow : scenario.slow_devices) {
      if (slow.rank < ranks() && slow.speed != 1) AddSlow(slow, slowed);
    }
  }

  int ranks() const {
    return labels_.ranks_of_each() * static_cast<int>(labels_.distinct().size());
  }
  // Whether devices differ, so that labels alone do not distinguish ranks.
  bool devices_differ() const { return kinds_.size() > labels_.distinct().size(); }
  const std::vector<cost::RankClass>& kinds() const { return kinds_; }
  const cost::RankClass& kind(int rank) const { return kinds_[Of(rank)]; }

  // [rank]: its kind.
  std::vector<std::int64_t> OfRanks() const {
    std::vector<std::int64_t> kinds;
    kinds.reserve(static_cast<std::size_t>(ranks()));
    for (int rank = 0; rank < ranks(); ++rank) kinds.push_back(static_cast<std::int64_t>(Of(rank)));
    return kinds;
  }

  // The class of these ranks, which must be of one kind.
  RankClass ClassOf(const std::vector<int>& ranks) const {
    RankClass own = classes_[Of(ranks.front())];
    own.first_rank = ranks.front();
    own.ranks = static_cast<int>(ranks.size());
    own.members = ranks;
    return own;
  }

  // The classes if devices are equal.
  std::vector<RankClass> ClassesByLabel() const {
    std::vector<RankClass> classes = classes_;
    for (std::size_t label = 0; label < classes.size(); ++label) {
      classes[label].first_rank = labels_.FirstRank(label);
      classes[label].ranks = labels_.ranks_of_each();
      if (classes.size() > 1) classes[label].members = labels_.Ranks(label);
    }
    return classes;
  }

 private:
  std::size_t Of(int rank) const {
    if (const auto slow = slow_.find(rank); slow != slow_.end()) return slow->second;
    return static_cast<std::size_t>(scenario::KindOfRank(scenario_, rank)) *
               labels_.distinct().size() +
           labels_.Of(rank);
  }

  void AddSlow(const scenario::SlowDevice& slow, std::deque<cost::Prices>& slowed) {
    RankClass own = classes_[Of(slow.rank)];
    own.speed = slow.speed;
    const auto known = std::find_if(classes_.begin(), classes_.end(), [&](const auto& other) {
      return other.priced == own.priced && other.speed == own.speed;
    });
    slow_[slow.rank] = static_cast<std::size_t>(known - classes_.begin());
    if (known != classes_.end()) return;
    const cost::RankClass& normal = kinds_[own.priced];
    slowed.push_back(cost::AtSpeed(*normal.program, *normal.prices, slow.speed));
    kinds_.push_back({normal.program, &slowed.back()});
    classes_.push_back(std::move(own));
  }

  const scenario::Scenario& scenario_;
  const plan::RankLabels labels_;
  std::vector<cost::RankClass> kinds_;  // of the priced classes, then of slow devices
  std::vector<RankClass> classes_;      // [kind] their facts
  std::map<int, std::size_t> slow_;     // by rank: the kind of a slow device
};

// The distinct layouts of all programs.
std::vector<parallel::GroupLayout> LayoutsOf(std::span<const PricedClass> priced) {
  std::vector<parallel::GroupLayout> layouts;
  for (const PricedClass& own : priced) {
    for (const ProcessGroup& group : own.program.groups) {
      if (std::find(layouts.begin(), layouts.end(), group.layout) == layouts.end()) {
        layouts.push_back(group.layout);
      }
    }
  }
  return layouts;
}

// Groups that stand for all groups of a color; the groups of the layouts come first.
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

  // The groups of a rank class. All of its ranks are in groups of the same colors.
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

// Adds one rank of each class, in the groups that stand for the groups of all its ranks. `kind_of`:
// [rank], index in `kinds`.
void AddClasses(parallel::Classes classes, std::span<const std::int64_t> kind_of,
                std::span<const cost::RankClass> kinds,
                const std::vector<parallel::GroupLayout>& layouts, SimulatedRanks& ranks) {
  const GroupsOfClasses groups(layouts, classes);
  ranks.members = std::move(classes.ranks);
  for (const std::vector<int>& members : ranks.members) {
    const int first = members.front();
    const cost::RankClass& kind =
        kinds[static_cast<std::size_t>(kind_of[static_cast<std::size_t>(first)])];
    ranks.groups.push_back(groups.Of(*kind.program, first));
    ranks.classes.push_back({.program = kind.program,
                             .prices = kind.prices,
                             .representative = first,
                             .ranks = members,
                             .groups = &ranks.groups.back(),
                             .records = false});
  }
}

// Adds one rank of each label; its groups stand for those of all ranks.
void AddLabels(const RankKinds& kinds, SimulatedRanks& ranks) {
  for (const RankClass& own : ranks.reported) {
    const cost::RankClass& kind = kinds.kind(own.first_rank);
    ranks.classes.push_back({.program = kind.program,
                             .prices = kind.prices,
                             .representative = own.first_rank,
                             .ranks = own.members,
                             .records = false});
  }
}

// Adds all ranks, each in its own groups.
Result<network::CollectiveTraffic> AddRanks(const scenario::Scenario& scenario,
                                            const RankKinds& kinds, int steps,
                                            SimulatedRanks& ranks) {
  for (int rank = 0; rank < kinds.ranks(); ++rank) {
    const cost::RankClass& kind = kinds.kind(rank);
    std::vector<ProcessGroup> groups = lowering::GroupsOf(*kind.program, rank);
    const bool as_before = !ranks.groups.empty() && SameRanks(groups, ranks.groups.back());
    if (!as_before) ranks.groups.push_back(std::move(groups));
    ranks.classes.push_back({.program = kind.program,
                             .prices = kind.prices,
                             .representative = rank,
                             .groups = &ranks.groups.back(),
                             .records = false});
  }
  return cost::RouteCollectives(scenario, ranks.classes, steps);
}

// Records each reported class in the simulated class of its first rank. Simulated classes are
// reported classes or parts of them.
void RecordReported(SimulatedRanks& ranks) {
  for (RankClass& own : ranks.reported) {
    const auto simulated = std::ranges::lower_bound(ranks.classes, own.first_rank, {},
                                                    &simulate::RankClass::representative);
    STEPCAST_CHECK(
        simulated != ranks.classes.end() && simulated->representative == own.first_rank,
        "the first rank of each reported class must be the representative of a simulated class");
    simulated->records = true;
    own.simulated = static_cast<std::size_t>(simulated - ranks.classes.begin());
  }
}

}  // namespace

Result<SimulatedRanks> FlowRanksOf(const scenario::Scenario& scenario,
                                   std::span<const std::int64_t> labels,
                                   std::span<const cost::RankClass> kinds,
                                   const std::vector<parallel::GroupLayout>& layouts) {
  STEPCAST_TAKE(auto flows, cost::FlowClassesOf(scenario, labels, kinds, layouts));
  SimulatedRanks ranks;
  ranks.traffic.emplace(std::move(flows.traffic));
  AddClasses(std::move(flows.classes), labels, kinds, layouts, ranks);
  return ranks;
}

Result<SimulatedRanks> SimulatedRanksOf(const scenario::Scenario& scenario,
                                        std::span<const PricedClass> priced, int steps) {
  SimulatedRanks ranks;
  const RankKinds kinds(scenario, priced, ranks.slowed);
  const std::vector<parallel::GroupLayout> layouts = LayoutsOf(priced);
  std::optional<parallel::Classes> coloured;  // none: labels alone distinguish ranks
  if (kinds.devices_differ()) {
    coloured = parallel::ClassesOf(kinds.OfRanks(), parallel::GroupMeetings(layouts), {});
    for (const std::vector<int>& own : coloured->ranks)
      ranks.reported.push_back(kinds.ClassOf(own));
  } else {
    ranks.reported = kinds.ClassesByLabel();
  }
  switch (scenario.network) {
    case scenario::Fidelity::kAnalytic:
      if (coloured) {
        AddClasses(*std::move(coloured), kinds.OfRanks(), kinds.kinds(), layouts, ranks);
      } else {
        AddLabels(kinds, ranks);
      }
      break;
    case scenario::Fidelity::kFlow: {
      const std::vector<std::int64_t> of_ranks = kinds.OfRanks();
      STEPCAST_TAKE(auto flows, cost::FlowClassesOf(scenario, of_ranks, kinds.kinds(), layouts));
      ranks.traffic.emplace(std::move(flows.traffic));
      AddClasses(std::move(flows.classes), of_ranks, kinds.kinds(), layouts, ranks);
      break;
    }
    case scenario::Fidelity::kMessage: {
      STEPCAST_TAKE(auto traffic, AddRanks(scenario, kinds, steps, ranks));
      ranks.traffic.emplace(std::move(traffic));
      break;
    }
  }
  RecordReported(ranks);
  return ranks;
}

}  // namespace stepcast::forecast
