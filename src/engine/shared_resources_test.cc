#include "src/engine/shared_resources.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"

namespace stepcast::engine {
namespace {

using Use = SharedResources::Use;

std::vector<SharedResources::Activity> Moved(const SharedResources& resources) {
  std::vector<SharedResources::Activity> moved(resources.moved().begin(), resources.moved().end());
  std::sort(moved.begin(), moved.end());
  return moved;
}

// Resources where each start and finish is an instant of its own.
class Stepwise : public SharedResources {
 public:
  using SharedResources::SharedResources;
  void Start(Activity activity, Time now, Time work, const std::vector<Use>& uses) {
    SharedResources::Start(activity, now, work, uses);
    Settle(now);
  }
  void Finish(Activity activity, Time now) {
    SharedResources::Finish(activity);
    Settle(now);
  }
};

Use Of(std::uint32_t resource, double share, Use::Way way = Use::Way::kDivides) {
  return {resource, SharedResources::Share(share), way};
}

TEST(SharedResourcesTest, AloneItEndsAfterExactlyItsWork) {
  Stepwise resources(1, 1);
  const std::vector<Use> all = {Of(0, 1)};
  // An odd number of picoseconds after an odd start: nothing is rounded.
  resources.Start(0, Picoseconds(123'456'789), Picoseconds(9'876'543'211), all);
  EXPECT_EQ(resources.end(0), Picoseconds(123'456'789 + 9'876'543'211));
  EXPECT_EQ(resources.rate(0), 1.0);
}

TEST(SharedResourcesTest, WithoutUsesNothingHinders) {
  Stepwise resources(1, 2);
  const std::vector<Use> all = {Of(0, 1)};
  resources.Start(0, Time(), Nanoseconds(10), all);
  resources.Start(1, Time(), Nanoseconds(10), {});
  EXPECT_EQ(Moved(resources), (std::vector<SharedResources::Activity>{1}));
  EXPECT_EQ(resources.end(0), Nanoseconds(10));
  EXPECT_EQ(resources.end(1), Nanoseconds(10));
}

TEST(SharedResourcesTest, PartsOfAWholeDoNotContend) {
  // 0.3 and 0.7 are not exact in binary; their sum must still count as the whole.
  Stepwise resources(1, 3);
  const std::vector<Use> first = {Of(0, 0.3)};
  const std::vector<Use> second = {Of(0, 0.7)};
  resources.Start(0, Time(), Nanoseconds(10), first);
  resources.Start(1, Nanoseconds(1), Nanoseconds(10), second);
  EXPECT_EQ(Moved(resources), (std::vector<SharedResources::Activity>{1}));
  EXPECT_EQ(resources.end(0), Nanoseconds(10));
  EXPECT_EQ(resources.end(1), Nanoseconds(11));
}

TEST(SharedResourcesTest, TwoThatNeedAllOfItTakeHalfEach) {
  Stepwise resources(1, 2);
  const std::vector<Use> all = {Of(0, 1)};
  resources.Start(0, Time(), Nanoseconds(10), all);
  // At 4 ns, 6 ns of work are left; at half rate they take 12 ns more.
  resources.Start(1, Nanoseconds(4), Nanoseconds(10), all);
  EXPECT_EQ(Moved(resources), (std::vector<SharedResources::Activity>{0, 1}));
  EXPECT_EQ(resources.end(0), Nanoseconds(16));
  EXPECT_EQ(resources.end(1), Nanoseconds(24));
  EXPECT_EQ(resources.rate(0), 0.5);
  // At 16 ns the second has done 6 of its 10 ns and goes on at full rate.
  resources.Finish(0, Nanoseconds(16));
  EXPECT_EQ(Moved(resources), (std::vector<SharedResources::Activity>{1}));
  EXPECT_EQ(resources.end(1), Nanoseconds(20));
  EXPECT_FALSE(resources.running(0));
}

TEST(SharedResourcesTest, ASlowdownOfNoLengthLeavesNoTrace) {
  Stepwise resources(1, 2);
  const std::vector<Use> all = {Of(0, 1)};
  resources.Start(0, Time(), Picoseconds(10'001), all);
  resources.Start(1, Picoseconds(7), Picoseconds(500), all);
  resources.Finish(1, Picoseconds(7));
  EXPECT_EQ(resources.end(0), Picoseconds(10'001));
}

TEST(SharedResourcesTest, ProductBesideACollective) {
  // The example of the header. level = 1 / (1 + 0.1): 11 ns of work at rate 1/1.1 take 12.1 ns.
  // 0.1 is rounded down to a multiple of 2^-24, so the end may come earlier by 11 ns x 2^-24; the
  // bounds are far wider.
  Stepwise resources(1, 2);
  const std::vector<Use> product = {Of(0, 1)};
  const std::vector<Use> collective = {Of(0, 0.1)};
  resources.Start(0, Time(), Nanoseconds(11), product);
  resources.Start(1, Time(), Nanoseconds(100), collective);
  EXPECT_NEAR(resources.rate(0), 1 / 1.1, 1e-7);
  EXPECT_NEAR(resources.rate(1), 1 / 1.1, 1e-7);
  EXPECT_NEAR(resources.end(0).picoseconds(), 12'100, 1);
}

TEST(SharedResourcesTest, APersistentKernelTakesTwoRoundsBesideAHolder) {
  // All multiprocessors are wanted and a tenth of them is held: what has no room runs afterwards,
  // so that 10 ns of work take 20. The holder is not slowed.
  Stepwise resources(1, 3);
  const std::vector<Use> product = {Of(0, 1, Use::Way::kPersists)};
  const std::vector<Use> collective = {Of(0, 0.1, Use::Way::kHolds)};
  resources.Start(0, Time(), Nanoseconds(10), product);
  EXPECT_EQ(resources.rate(0), 1);
  resources.Start(1, Nanoseconds(2), Nanoseconds(8), collective);
  EXPECT_EQ(resources.rate(0), 0.5);
  EXPECT_EQ(resources.rate(1), 1);
  EXPECT_EQ(resources.end(0), Nanoseconds(18));
  // The holder goes: of the 10 ns, 2 and half of 8 are done.
  resources.Finish(1, Nanoseconds(10));
  EXPECT_EQ(resources.rate(0), 1);
  EXPECT_EQ(resources.end(0), Nanoseconds(14));
}

TEST(SharedResourcesTest, APersistentKernelThatLeavesRoomIsNotSlowed) {
  // Waves that need 0.88 of the multiprocessors leave 0.12 to a holder, and less to two.
  Stepwise resources(1, 3);
  const std::vector<Use> product = {Of(0, 0.88, Use::Way::kPersists)};
  const std::vector<Use> collective = {Of(0, 0.1, Use::Way::kHolds)};
  resources.Start(0, Time(), Nanoseconds(10), product);
  resources.Start(1, Time(), Nanoseconds(10), collective);
  EXPECT_EQ(resources.rate(0), 1);
  EXPECT_EQ(resources.rate(1), 1);
  resources.Start(2, Time(), Nanoseconds(10), collective);
  EXPECT_EQ(resources.rate(0), 0.5);
  EXPECT_EQ(resources.rate(2), 1);
}

TEST(SharedResourcesTest, BesideWhatTakesTurnsAPersistentKernelDivides) {
  Stepwise resources(1, 2);
  const std::vector<Use> product = {Of(0, 1, Use::Way::kPersists)};
  const std::vector<Use> other = {Of(0, 0.25)};
  resources.Start(0, Time(), Nanoseconds(10), product);
  resources.Start(1, Time(), Nanoseconds(10), other);
  EXPECT_NEAR(resources.rate(0), 0.8, 1e-11);
  EXPECT_NEAR(resources.rate(1), 0.8, 1e-11);
}

TEST(SharedResourcesTest, TwoRoundsLeaveMoreOfOtherResources) {
  // Of resource 1 the product wants 0.8 and the holder 0.9: alone they would have 1 / 1.7 each.
  // Bound to a half, the product uses 0.4 of it, and the holder has 0.6 / 0.9.
  Stepwise resources(2, 2);
  const std::vector<Use> product = {Of(0, 1, Use::Way::kPersists), Of(1, 0.8)};
  const std::vector<Use> collective = {Of(0, 0.1, Use::Way::kHolds), Of(1, 0.9)};
  resources.Start(0, Time(), Nanoseconds(10), product);
  resources.Start(1, Time(), Nanoseconds(10), collective);
  EXPECT_EQ(resources.rate(0), 0.5);
  EXPECT_NEAR(resources.rate(1), 0.6 / 0.9, 1e-6);
}

TEST(SharedResourcesTest, AShareAboveOneBoundsTheRate) {
  // A collective that four siblings run over one card: at a quarter of the rate, 40 ns for 10 ns of
  // work, whatever else runs. At that rate it needs a tenth of the multiprocessors of which it
  // would need 0.4, and the product beside it keeps 0.9: not 1 / 1.4, and the collective not 1 /
  // 5.6.
  Stepwise resources(2, 2);
  const std::vector<Use> product = {Of(0, 1)};
  const std::vector<Use> collective = {Of(0, 0.4), Of(1, 4)};
  resources.Start(0, Time(), Nanoseconds(10), collective);
  EXPECT_EQ(resources.rate(0), 0.25);
  EXPECT_EQ(resources.end(0), Nanoseconds(40));
  resources.Start(1, Time(), Nanoseconds(9), product);
  EXPECT_EQ(resources.rate(0), 0.25);
  EXPECT_NEAR(resources.rate(1), 0.9, 1e-7);
  // A second one on the card: an eighth each.
  resources.Finish(1, Nanoseconds(4));
  resources.Start(1, Nanoseconds(4), Nanoseconds(10), collective);
  EXPECT_EQ(resources.rate(0), 0.125);
  EXPECT_EQ(resources.rate(1), 0.125);
}

TEST(SharedResourcesTest, OnesWhoAreHeldBackElsewhereLeaveMoreToOthers) {
  // Resource 0: a, b, c need all of it. Resource 1: c and d need all of it, d half... by hand:
  //   level of 0 is 1/3, of 1 is 1 / (1 + 0.5) = 2/3: a, b, c are fixed at 1/3.
  //   d may have what c leaves: (1 - 1/3) / 0.5 = 4/3, more than 1: d runs at rate 1.
  Stepwise resources(2, 4);
  const std::vector<Use> first = {Of(0, 1)};
  const std::vector<Use> both = {Of(0, 1), Of(1, 1)};
  const std::vector<Use> half = {Of(1, 0.5)};
  resources.Start(0, Time(), Nanoseconds(30), first);
  resources.Start(1, Time(), Nanoseconds(30), first);
  resources.Start(2, Time(), Nanoseconds(30), both);
  resources.Start(3, Time(), Nanoseconds(30), half);
  EXPECT_NEAR(resources.rate(0), 1.0 / 3, 1e-11);
  EXPECT_NEAR(resources.rate(1), 1.0 / 3, 1e-11);
  EXPECT_NEAR(resources.rate(2), 1.0 / 3, 1e-11);
  EXPECT_EQ(resources.rate(3), 1.0);
  EXPECT_EQ(resources.end(3), Nanoseconds(30));
  // A third is rounded down by less than 2^-38, so 30 ns become 90 ns and one picosecond at most.
  EXPECT_GE(resources.end(0), Nanoseconds(90));
  EXPECT_LE(resources.end(0), Nanoseconds(90) + Picoseconds(1));
}

TEST(SharedResourcesTest, ASecondResourceFillsUpLater) {
  // Resource 0: a and b with all of it. Resource 1: b with 0.5, c and d with all of it.
  //   level of 0 is 1/2, of 1 is 1 / 2.5 = 2/5: b, c, d are fixed at 2/5.
  //   a has what b leaves of resource 0: 1 - 2/5 = 3/5.
  Stepwise resources(2, 4);
  const std::vector<Use> a = {Of(0, 1)};
  const std::vector<Use> b = {Of(0, 1), Of(1, 0.5)};
  const std::vector<Use> c = {Of(1, 1)};
  resources.Start(0, Time(), Nanoseconds(3), a);
  resources.Start(1, Time(), Nanoseconds(3), b);
  resources.Start(2, Time(), Nanoseconds(3), c);
  resources.Start(3, Time(), Nanoseconds(3), c);
  EXPECT_NEAR(resources.rate(0), 0.6, 1e-11);
  EXPECT_NEAR(resources.rate(1), 0.4, 1e-11);
  EXPECT_NEAR(resources.rate(2), 0.4, 1e-11);
  EXPECT_NEAR(resources.rate(3), 0.4, 1e-11);
  // Without c, resource 1 holds 0.5 + 1: the level of 0 (1/2) is below 2/3, so a and b run at 1/2,
  // and d has (1 - 0.25) / 1.
  resources.Finish(2, Time());
  EXPECT_EQ(resources.rate(0), 0.5);
  EXPECT_EQ(resources.rate(1), 0.5);
  EXPECT_EQ(resources.rate(3), 0.75);
  EXPECT_EQ(Moved(resources), (std::vector<SharedResources::Activity>{0, 1, 3}));
}

TEST(SharedResourcesTest, UnrelatedActivitiesAreLeftAlone) {
  Stepwise resources(2, 4);
  const std::vector<Use> first = {Of(0, 1)};
  const std::vector<Use> second = {Of(1, 1)};
  resources.Start(0, Time(), Nanoseconds(10), first);
  resources.Start(1, Time(), Nanoseconds(10), first);
  resources.Start(2, Time(), Nanoseconds(10), second);
  EXPECT_EQ(Moved(resources), (std::vector<SharedResources::Activity>{2}));
  resources.Start(3, Time(), Nanoseconds(10), second);
  EXPECT_EQ(Moved(resources), (std::vector<SharedResources::Activity>{2, 3}));
}

TEST(SharedResourcesTest, DaysOfWorkAreNoTrouble) {
  Stepwise resources(1, 2);
  const std::vector<Use> all = {Of(0, 1)};
  const Time day = Seconds(86'400);
  resources.Start(0, Time(), day, all);
  resources.Start(1, Time(), day, all);
  EXPECT_EQ(resources.end(0), 2 * day);
}

TEST(SharedResourcesTest, ResetForgetsWhatRan) {
  Stepwise resources(1, 2);
  const std::vector<Use> all = {Of(0, 1)};
  resources.Start(0, Time(), Nanoseconds(10), all);
  resources.Reset(1, 2);
  EXPECT_FALSE(resources.running(0));
  resources.Start(1, Time(), Nanoseconds(10), all);
  EXPECT_EQ(resources.end(1), Nanoseconds(10));
}

// Laws, over random activities that start at random times and end when their time has come.

struct Plan {
  Time start;
  Time work;
  std::vector<Use> uses;
};

constexpr std::uint32_t kResources = 3;

rc::Gen<Plan> AnyPlan() {
  return rc::gen::exec([] {
    Plan plan;
    plan.start = Picoseconds(*rc::gen::inRange(0, 5000));
    plan.work = Picoseconds(*rc::gen::inRange(0, 5000));
    for (std::uint32_t r = 0; r < kResources; ++r) {
      const int percent = *rc::gen::elementOf(std::vector<int>{0, 0, 5, 10, 37, 50, 80, 100, 330});
      const auto way = *rc::gen::element(Use::Way::kDivides, Use::Way::kDivides,
                                         Use::Way::kPersists, Use::Way::kHolds);
      if (percent > 0) plan.uses.push_back(Of(r, percent / 100.0, way));
    }
    return plan;
  });
}

// Sums of products of a share (26 bits) and a rate (38 bits) that are at most 1 are exact in the
// 64 bits of a long double.
long double Used(const SharedResources& resources, const std::vector<Plan>& plans,
                 std::uint32_t resource) {
  long double used = 0;
  for (std::uint32_t a = 0; a < plans.size(); ++a) {
    if (!resources.running(a)) continue;
    for (const Use& use : plans[a].uses) {
      if (use.resource == resource) {
        used += std::ldexp(static_cast<long double>(use.share), -24) * resources.rate(a);
      }
    }
  }
  return used;
}

// Whether it has no room beside those that hold one of its resources.
bool TakesTwoRounds(const SharedResources& resources, const std::vector<Plan>& plans,
                    const Plan& plan) {
  return std::any_of(plan.uses.begin(), plan.uses.end(), [&](const Use& use) {
    if (use.way != Use::Way::kPersists) return false;
    std::uint64_t wanted = use.share;
    for (std::uint32_t b = 0; b < plans.size(); ++b) {
      if (!resources.running(b)) continue;
      for (const Use& other : plans[b].uses) {
        if (other.resource == use.resource && other.way == Use::Way::kHolds) wanted += other.share;
      }
    }
    return wanted > SharedResources::kWhole;
  });
}

void CheckFair(const SharedResources& resources, const std::vector<Plan>& plans) {
  for (std::uint32_t r = 0; r < kResources; ++r) RC_ASSERT(Used(resources, plans, r) <= 1.0L);
  for (std::uint32_t a = 0; a < plans.size(); ++a) {
    if (!resources.running(a)) continue;
    RC_ASSERT(resources.rate(a) > 0);
    RC_ASSERT(resources.rate(a) <= 1);
    RC_ASSERT(resources.rate(a) < 1 || !TakesTwoRounds(resources, plans, plans[a]));
    if (resources.rate(a) == 1) continue;
    if (TakesTwoRounds(resources, plans, plans[a])) {
      RC_ASSERT(resources.rate(a) <= 0.5);
      if (resources.rate(a) == 0.5) continue;
    }
    // Max-min fair: some resource of `a` is used up, and no activity runs faster there than `a`.
    bool held_back = false;
    for (const Use& use : plans[a].uses) {
      bool fastest = true;
      for (std::uint32_t b = 0; b < plans.size(); ++b) {
        if (!resources.running(b)) continue;
        for (const Use& other : plans[b].uses) {
          if (other.resource == use.resource && resources.rate(b) > resources.rate(a) + 1e-9) {
            fastest = false;
          }
        }
      }
      held_back |= fastest && Used(resources, plans, use.resource) > 1.0L - 1e-9L;
    }
    RC_ASSERT(held_back);
  }
}

RC_GTEST_PROP(SharedResourcesTest, RatesAreFairAndWorkIsConserved, ()) {
  auto plans = *rc::gen::container<std::vector<Plan>>(AnyPlan());
  if (plans.size() > 12) plans.resize(12);
  std::sort(plans.begin(), plans.end(),
            [](const Plan& a, const Plan& b) { return a.start < b.start; });
  Stepwise resources(kResources, static_cast<std::uint32_t>(plans.size()));
  std::vector<long double> done(plans.size(), 0);
  std::size_t started = 0;
  std::size_t running = 0;
  Time now;
  while (started < plans.size() || running > 0) {
    // The next thing to happen: an end, or else a start.
    Time next = Time::Max();
    std::uint32_t ending = static_cast<std::uint32_t>(plans.size());
    for (std::uint32_t a = 0; a < started; ++a) {
      if (resources.running(a) && resources.end(a) < next) {
        next = resources.end(a);
        ending = a;
      }
    }
    const bool starts = started < plans.size() && plans[started].start < next;
    if (starts) next = plans[started].start;
    RC_ASSERT(next >= now);
    for (std::uint32_t a = 0; a < started; ++a) {
      if (resources.running(a)) done[a] += resources.rate(a) * (next - now).picoseconds();
    }
    now = next;
    if (starts) {
      const Plan& plan = plans[started];
      resources.Start(static_cast<std::uint32_t>(started++), now, plan.work, plan.uses);
      ++running;
    } else {
      // Not before the work is done, and no later than the next picosecond. 1e-6 ps stand for the
      // rounding of `done`.
      const long double work = plans[ending].work.picoseconds();
      RC_ASSERT(done[ending] > work - 1e-6L);
      RC_ASSERT(done[ending] < work + 1 + 1e-6L);
      resources.Finish(ending, now);
      --running;
    }
    CheckFair(resources, plans);
  }
}

// moved() is what was started, and exactly those of the others whose end differs after a call.
RC_GTEST_PROP(SharedResourcesTest, MovedListsEveryEndThatChanged, ()) {
  auto plans = *rc::gen::container<std::vector<Plan>>(AnyPlan());
  if (plans.size() > 12) plans.resize(12);
  Stepwise resources(kResources, static_cast<std::uint32_t>(plans.size()));
  for (std::uint32_t a = 0; a < plans.size(); ++a) {
    std::vector<Time> before;
    for (std::uint32_t b = 0; b < a; ++b) before.push_back(resources.end(b));
    resources.Start(a, Time(), plans[a].work, plans[a].uses);
    const auto moved = Moved(resources);
    RC_ASSERT(std::find(moved.begin(), moved.end(), a) != moved.end());
    for (std::uint32_t b = 0; b < a; ++b) {
      const bool listed = std::find(moved.begin(), moved.end(), b) != moved.end();
      RC_ASSERT(listed == (resources.end(b) != before[b]));
    }
  }
}

// Whether what happens at one instant is settled together or one by one, rates and ends are the
// same to the last bit.
RC_GTEST_PROP(SharedResourcesTest, AnInstantIsSettledAsAWhole, ()) {
  auto plans = *rc::gen::container<std::vector<Plan>>(AnyPlan());
  if (plans.size() > 20) plans.resize(20);
  const auto count = static_cast<std::uint32_t>(plans.size());
  SharedResources together(kResources, count);
  Stepwise apart(kResources, count);
  std::uint32_t started = 0;
  Time now;
  while (started < count) {
    const auto until = std::min(count, started + *rc::gen::inRange<std::uint32_t>(1, 5));
    for (std::uint32_t a = 0; a < started; ++a) {
      // Whose end has come, and some before.
      if (!apart.running(a) || (apart.end(a) > now && *rc::gen::inRange(0, 3) > 0)) continue;
      together.Finish(a);
      apart.Finish(a, now);
    }
    for (; started < until; ++started) {
      together.Start(started, now, plans[started].work, plans[started].uses);
      apart.Start(started, now, plans[started].work, plans[started].uses);
    }
    RC_ASSERT(together.unsettled());
    together.Settle(now);
    Time next = now + Picoseconds(*rc::gen::inRange(0, 2000));
    for (std::uint32_t a = 0; a < started; ++a) {
      RC_ASSERT(together.running(a) == apart.running(a));
      if (!apart.running(a)) continue;
      RC_ASSERT(together.rate(a) == apart.rate(a));
      RC_ASSERT(together.end(a) == apart.end(a));
      next = std::min(next, apart.end(a));
    }
    now = next;
  }
}

}  // namespace
}  // namespace stepcast::engine
