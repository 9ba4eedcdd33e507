#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "src/lowering/partitioned_state.h"

namespace stepcast::lowering {
namespace {

using Parameters = ParameterCoordinator::Parameters;

// Three modules forward, then back: 0, 1, 2, 2, 1, 0; parameter i is module i's.
std::vector<Parameters> ThereAndBack() { return {{0}, {1}, {2}, {2}, {1}, {0}}; }

// Ten elements each. A prefetch of 15 requests two parameters ahead, because it continues until 15
// is reached.
TEST(ParameterCoordinator, AsksAheadUntilTheBucketIsFull) {
  ParameterCoordinator coordinator(ThereAndBack(), {10, 10, 10}, {false, false, false},
                                   {.prefetch = 15, .max_live = 1000, .max_reuse = 1});
  coordinator.BeginMicroBatch();
  auto fetched = coordinator.Fetch();
  EXPECT_EQ(fetched.gather, Parameters{0});
  EXPECT_EQ(fetched.wait, Parameters{0});
  EXPECT_EQ(fetched.prefetch, (Parameters{1, 2}));
  EXPECT_EQ(coordinator.Release(), Parameters{0});
  // Forward 1: the queue continues after the entries already asked for. It skips 2 and 1 of
  // backward, which are gathered or on their way, then asks for 0, which is not. Only 10 elements
  // are left.
  fetched = coordinator.Fetch();
  EXPECT_TRUE(fetched.gather.empty());
  EXPECT_EQ(fetched.wait, Parameters{1});
  EXPECT_EQ(fetched.prefetch, Parameters{0});
  // 1 was passed by for its use in backward, so it stays, although the reuse distance does not
  // reach so far.
  EXPECT_TRUE(coordinator.Release().empty());
  EXPECT_EQ(coordinator.Fetch().wait, Parameters{2});
  EXPECT_TRUE(coordinator.Release().empty());
  EXPECT_TRUE(coordinator.Fetch().wait.empty());
  EXPECT_EQ(coordinator.Release(), Parameters{2});
  EXPECT_TRUE(coordinator.Fetch().gather.empty());
  EXPECT_EQ(coordinator.Release(), Parameters{1});
  EXPECT_EQ(coordinator.Fetch().wait, Parameters{0});
  EXPECT_TRUE(coordinator.ReleaseRest() == Parameters{0});
}

// Without prefetch, parameters are gathered when needed and freed unless used again within the
// distance: the backward of 2 follows its forward at once.
TEST(ParameterCoordinator, KeepsWhatComesAgainSoon) {
  ParameterCoordinator coordinator(ThereAndBack(), {10, 10, 10}, {false, false, false},
                                   {.prefetch = 0, .max_live = 1000, .max_reuse = 10});
  coordinator.BeginMicroBatch();
  for (const int p : {0, 1}) {
    EXPECT_EQ(coordinator.Fetch().gather, Parameters{p});
    EXPECT_EQ(coordinator.Release(), Parameters{p});
  }
  EXPECT_EQ(coordinator.Fetch().gather, Parameters{2});
  EXPECT_TRUE(coordinator.Release().empty());
  EXPECT_TRUE(coordinator.Fetch().gather.empty());
  EXPECT_EQ(coordinator.Release(), Parameters{2});
}

// Parameter 1 is used again after 2 and 2: a distance of 20 is too short, 21 is enough.
TEST(ParameterCoordinator, CountsTheElementsBetween) {
  for (const std::int64_t distance : {20, 21}) {
    ParameterCoordinator coordinator(ThereAndBack(), {10, 10, 10}, {false, false, false},
                                     {.prefetch = 0, .max_live = 1000, .max_reuse = distance});
    coordinator.BeginMicroBatch();
    coordinator.Fetch();
    coordinator.Release();
    coordinator.Fetch();
    EXPECT_EQ(coordinator.Release().empty(), distance == 21);
  }
}

// Room for 15 elements: with 10 live, min(15 - 10, 50) allows one more parameter; with 20 none.
TEST(ParameterCoordinator, DoesNotAskBeyondWhatMayLive) {
  ParameterCoordinator coordinator(ThereAndBack(), {10, 10, 10}, {false, false, false},
                                   {.prefetch = 50, .max_live = 15, .max_reuse = 0});
  coordinator.BeginMicroBatch();
  EXPECT_EQ(coordinator.Fetch().prefetch, Parameters{1});
  EXPECT_EQ(coordinator.Release(), Parameters{0});
  EXPECT_EQ(coordinator.Fetch().prefetch, Parameters{2});
}

TEST(ParameterCoordinator, PersistentParametersAreAlwaysHere) {
  ParameterCoordinator coordinator({{0, 1}, {0, 1}}, {10, 1}, {false, true},
                                   {.prefetch = 50, .max_live = 100, .max_reuse = 0});
  coordinator.BeginMicroBatch();
  EXPECT_EQ(coordinator.Fetch().gather, Parameters{0});
  coordinator.Release();
  coordinator.Fetch();
  EXPECT_EQ(coordinator.Release(), Parameters{0});
  EXPECT_TRUE(coordinator.ReleaseRest().empty());
}

// For all settings: a visit's parameters are gathered when it runs, nothing is requested twice, and
// only persistent parameters remain after the micro-batch.
RC_GTEST_PROP(ParameterCoordinatorLaws, NeededParametersAreHere, ()) {
  const int count = *rc::gen::inRange(1, 8);
  std::vector<std::int64_t> elements;
  std::vector<bool> persistent;
  for (int p = 0; p < count; ++p) {
    elements.push_back(*rc::gen::inRange(1, 20));
    persistent.push_back(*rc::gen::inRange(0, 4) == 0);
  }
  std::vector<Parameters> visits;
  const int length = *rc::gen::inRange(1, 20);
  for (int v = 0; v < length; ++v) {
    std::set<int> parameters;
    const int size = *rc::gen::inRange(1, 3);
    for (int i = 0; i < size; ++i) parameters.insert(*rc::gen::inRange(0, count));
    visits.emplace_back(parameters.begin(), parameters.end());
  }
  ParameterCoordinator coordinator(visits, elements, persistent,
                                   {.prefetch = *rc::gen::inRange(0, 60),
                                    .max_live = *rc::gen::inRange(0, 100),
                                    .max_reuse = *rc::gen::inRange(0, 100)});
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    coordinator.BeginMicroBatch();
    std::set<int> in_flight, here;
    for (int p = 0; p < count; ++p) {
      if (persistent[p]) here.insert(p);
    }
    const auto ask = [&](const Parameters& parameters) {
      for (const int p : parameters) {
        RC_ASSERT(here.count(p) == 0);
        RC_ASSERT(in_flight.insert(p).second);
      }
    };
    for (const Parameters& visit : visits) {
      const auto fetched = coordinator.Fetch();
      ask(fetched.gather);
      for (const int p : fetched.wait) {
        RC_ASSERT(in_flight.erase(p) == 1);
        here.insert(p);
      }
      ask(fetched.prefetch);
      for (const int p : visit) RC_ASSERT(here.count(p) == 1);
      for (const int p : coordinator.Release()) RC_ASSERT(here.erase(p) == 1);
    }
    for (const int p : coordinator.ReleaseRest()) RC_ASSERT(here.erase(p) == 1);
    RC_ASSERT(in_flight.empty());
    for (const int p : here) RC_ASSERT(persistent[p]);
  }
}

}  // namespace
}  // namespace stepcast::lowering
