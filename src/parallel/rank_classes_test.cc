#include "src/parallel/rank_classes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/parallel/axis.h"
#include "src/parallel/rank_grid.h"

namespace stepcast::parallel {
namespace {

struct LinkUse {
  int layout = 0;
  int first_rank = 0;  // which group of that layout: its lowest rank
  int link = 0;
  std::int64_t load = 0;
};

// Four GPUs per node, one card for two of them: `cards[node]` in any unit.
struct Sample {
  std::vector<std::int64_t> labels;
  std::vector<GroupLayout> layouts;
  std::vector<std::int64_t> links;
  std::vector<LinkUse> uses;

  // Among all groups, layout after layout.
  std::size_t NumberOf(int layout, int first_rank) const {
    std::size_t number = 0;
    for (int before = 0; before < layout; ++before) {
      number += static_cast<std::size_t>(layouts[static_cast<std::size_t>(before)].groups());
    }
    const auto groups = layouts[static_cast<std::size_t>(layout)].Groups();
    for (std::size_t i = 0; groups[i].front() != first_rank; ++i) ++number;
    return number;
  }
};

// Hybrid sharding over nodes of `gpus` GPUs that share `cards` cards; replicas cross nodes.
Sample HybridSharding(int nodes, int gpus, int cards) {
  Sample sample;
  const RankGrid grid({{Axis::kShard, gpus}, {Axis::kReplica, nodes}});
  sample.labels.assign(static_cast<std::size_t>(grid.ranks()), 0);
  sample.layouts = {grid.Layout(Axis::kShard), grid.Layout(Axis::kReplica)};
  sample.links.assign(static_cast<std::size_t>(nodes * cards), 25);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (int node = 0; node < nodes; ++node) {
      sample.uses.push_back(
          {.layout = 1, .first_rank = gpu, .link = node * cards + gpu * cards / gpus, .load = 3});
    }
  }
  return sample;
}

Classes ClassesOf(const Sample& sample) {
  std::vector<Meeting> meetings = GroupMeetings(sample.layouts);
  for (const LinkUse& use : sample.uses) {
    meetings[sample.NumberOf(use.layout, use.first_rank)].links.push_back({use.link, use.load});
  }
  return parallel::ClassesOf(sample.labels, meetings, sample.links);
}

TEST(RankClasses, EqualSurroundingsMakeOneClass) {
  const Classes classes = ClassesOf(HybridSharding(3, 4, 2));
  ASSERT_EQ(classes.ranks.size(), 1U);
  EXPECT_EQ(classes.ranks[0].front(), 0);
  EXPECT_EQ(classes.ranks[0].size(), 12U);
  EXPECT_EQ(classes.meeting_colours, (std::vector<int>{0, 0, 0, 1, 1, 1, 1}));
}

// Three GPUs share one card, the fourth has its own: two classes in every node.
TEST(RankClasses, AnUnevenCardSplitsTheRanks) {
  Sample sample = HybridSharding(2, 4, 2);
  for (LinkUse& use : sample.uses) {
    if (use.first_rank == 2) use.link -= 1;
  }
  const Classes classes = ClassesOf(sample);
  ASSERT_EQ(classes.ranks.size(), 2U);
  EXPECT_EQ(classes.ranks[0], (std::vector<int>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(classes.ranks[1], (std::vector<int>{3, 7}));
}

// A slow device is a class; the ranks that shard with it are another; the others, which meet it
// only through those, are a third.
TEST(RankClasses, ASlowDeviceSplitsThoseThatMeetIt) {
  Sample sample = HybridSharding(3, 2, 2);
  sample.labels[0] = 1;
  const Classes classes = ClassesOf(sample);
  ASSERT_EQ(classes.ranks.size(), 4U);
  EXPECT_EQ(classes.ranks[0], (std::vector<int>{0}));
  EXPECT_EQ(classes.ranks[1], (std::vector<int>{1}));     // its shard group
  EXPECT_EQ(classes.ranks[2], (std::vector<int>{2, 4}));  // its replicas
  EXPECT_EQ(classes.ranks[3], (std::vector<int>{3, 5}));
}

// Messages from each rank to the next but one. A link that only the first rank crosses
// distinguishes all ranks of its chain; those of the other chain stay alike.
TEST(RankClasses, MessagesTellTheirEndsApart) {
  const std::vector<std::int64_t> ranks(6, 0);
  std::vector<Meeting> meetings;
  for (int rank = 0; rank < 6; ++rank) {
    meetings.push_back({.ranks = {{rank, 0}, {(rank + 2) % 6, 1}}, .links = {}});
  }
  const std::vector<std::int64_t> links(1, 0);
  EXPECT_EQ(parallel::ClassesOf(ranks, meetings, links).ranks.size(), 1U);
  meetings[0].links = {{0, 7}};
  const Classes classes = parallel::ClassesOf(ranks, meetings, links);
  EXPECT_EQ(classes.class_of, (std::vector<int>{0, 1, 2, 1, 3, 1}));
}

Sample AnySample() {
  Sample sample;
  const int inner = *rc::gen::inRange(1, 5);
  const int outer = *rc::gen::inRange(1, 5);
  const RankGrid grid({{Axis::kShard, inner}, {Axis::kReplica, outer}});
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    sample.labels.push_back(*rc::gen::weightedElement<std::int64_t>({{9, 0}, {1, 1}}));
  }
  sample.layouts = {grid.Layout(Axis::kShard), grid.Layout(Axis::kReplica)};
  const int links = *rc::gen::inRange(1, 6);
  for (int link = 0; link < links; ++link) sample.links.push_back(*rc::gen::element(100, 100, 50));
  for (int layout = 0; layout < 2; ++layout) {
    for (const std::vector<int>& group :
         sample.layouts[static_cast<std::size_t>(layout)].Groups()) {
      std::set<int> used;
      const int count = *rc::gen::inRange(1, 4);
      for (int i = 0; i < count; ++i) used.insert((group.front() + i) % links);
      for (const int link : used) {
        sample.uses.push_back({.layout = layout,
                               .first_rank = group.front(),
                               .link = link,
                               .load = *rc::gen::element(10, 10, 20)});
      }
    }
  }
  return sample;
}

RC_GTEST_PROP(RankClasses, ColoursAreStableAndClassesPartition, ()) {
  const Sample sample = AnySample();
  const Classes classes = ClassesOf(sample);
  std::size_t total = 0;
  for (const std::vector<int>& of : classes.ranks) {
    total += of.size();
    for (const int rank : of) {
      RC_ASSERT(rank >= of.front());
      RC_ASSERT(sample.labels[static_cast<std::size_t>(rank)] ==
                sample.labels[static_cast<std::size_t>(of.front())]);
    }
  }
  RC_ASSERT(total == sample.labels.size());
  // Links of a colour carry the same from groups of each colour.
  std::map<int, std::set<std::map<std::pair<int, int>, std::int64_t>>> carried;  // by colour
  for (std::size_t link = 0; link < sample.links.size(); ++link) {
    std::map<std::pair<int, int>, std::int64_t> loads;
    for (const LinkUse& use : sample.uses) {
      if (use.link != static_cast<int>(link)) continue;
      const int colour = classes.meeting_colours[sample.NumberOf(use.layout, use.first_rank)];
      loads[{use.layout, colour}] += use.load;
    }
    carried[classes.link_colours[link]].insert(loads);
  }
  for (const auto& [colour, loads] : carried) RC_ASSERT(loads.size() == 1U);
}

// Max-min fair rates: all rise together, and those on a full link stop. `use[link][activity]`.
std::vector<double> FairRates(const std::vector<std::vector<double>>& use,
                              const std::vector<double>& capacity, std::size_t activities) {
  std::vector<double> rates(activities, 0);
  std::vector<bool> stopped(activities, false);
  double level = 0;
  while (std::find(stopped.begin(), stopped.end(), false) != stopped.end()) {
    double next = 1;
    for (std::size_t link = 0; link < use.size(); ++link) {
      double fixed = 0;
      double rising = 0;
      for (std::size_t a = 0; a < activities; ++a) {
        (stopped[a] ? fixed : rising) += use[link][a] * (stopped[a] ? rates[a] : 1);
      }
      if (rising > 0) next = std::min(next, (capacity[link] - fixed) / rising);
    }
    level = std::max(level, next);
    std::vector<bool> stops(activities, level >= 1);
    for (std::size_t link = 0; link < use.size(); ++link) {
      double carried = 0;
      for (std::size_t a = 0; a < activities; ++a) {
        carried += use[link][a] * (stopped[a] ? rates[a] : level);
      }
      if (carried < capacity[link] * (1 - 1e-9)) continue;
      for (std::size_t a = 0; a < activities; ++a) {
        if (use[link][a] > 0) stops[a] = true;
      }
    }
    for (std::size_t a = 0; a < activities; ++a) {
      if (stopped[a] || !stops[a]) continue;
      stopped[a] = true;
      rates[a] = level;
    }
  }
  return rates;
}

// All groups run at once. One activity per color of groups, on one link per color of links, gets
// the rates that all groups get on all links.
RC_GTEST_PROP(RankClasses, FlowOnClassesIsFlowOnAllRanks, ()) {
  const Sample sample = AnySample();
  const Classes classes = ClassesOf(sample);
  struct Activity {
    int layout = 0;
    int first_rank = 0;
    std::size_t colour = 0;  // among all
  };
  std::vector<Activity> activities;
  std::map<std::pair<int, int>, std::size_t> colour_of;
  for (int layout = 0; layout < 2; ++layout) {
    const auto groups = sample.layouts[static_cast<std::size_t>(layout)].Groups();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const int colour = classes.meeting_colours[sample.NumberOf(layout, groups[g].front())];
      const std::size_t number =
          colour_of.emplace(std::pair(layout, colour), colour_of.size()).first->second;
      activities.push_back({layout, groups[g].front(), number});
    }
  }
  const auto use_of = [&](const Activity& activity, std::size_t link) {
    double load = 0;
    for (const LinkUse& use : sample.uses) {
      if (use.layout == activity.layout && use.first_rank == activity.first_rank &&
          use.link == static_cast<int>(link)) {
        load += static_cast<double>(use.load);
      }
    }
    return load;
  };
  std::vector<std::vector<double>> all;
  std::vector<double> capacity;
  std::map<int, std::vector<double>> by_colour;  // of links: of each colour of groups
  std::map<int, double> capacity_of;
  for (std::size_t link = 0; link < sample.links.size(); ++link) {
    all.emplace_back();
    capacity.push_back(static_cast<double>(sample.links[link]));
    std::vector<double> sums(colour_of.size(), 0);
    for (const Activity& activity : activities) {
      all.back().push_back(use_of(activity, link));
      sums[activity.colour] += all.back().back();
    }
    by_colour[classes.link_colours[link]] = sums;  // any link of the colour
    capacity_of[classes.link_colours[link]] = capacity.back();
  }
  std::vector<std::vector<double>> quotient;
  std::vector<double> quotient_capacity;
  for (const auto& [colour, sums] : by_colour) {
    quotient.push_back(sums);
    quotient_capacity.push_back(capacity_of[colour]);
  }
  const std::vector<double> rates = FairRates(all, capacity, activities.size());
  const std::vector<double> of_classes = FairRates(quotient, quotient_capacity, colour_of.size());
  for (std::size_t a = 0; a < activities.size(); ++a) {
    RC_ASSERT(std::abs(rates[a] - of_classes[activities[a].colour]) < 1e-6);
  }
}

}  // namespace
}  // namespace stepcast::parallel
