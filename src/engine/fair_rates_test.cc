#include "src/engine/fair_rates.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/time.h"

namespace stepcast::engine {
namespace {

using Use = SharedResources::Use;

std::vector<std::uint64_t> FairRates(const std::vector<std::vector<Use>>& activities) {
  const std::vector<std::span<const Use>> uses(activities.begin(), activities.end());
  std::vector<std::uint64_t> rates(uses.size());
  FindFairRates(uses, rates);
  return rates;
}

std::vector<std::uint64_t> RatesOfEngine(const std::vector<std::vector<Use>>& activities) {
  SharedResources resources(kMostSharedByFew, static_cast<std::uint32_t>(activities.size()));
  std::vector<std::uint64_t> rates;
  for (std::uint32_t a = 0; a < activities.size(); ++a) {
    resources.Start(a, Time(), Seconds(1), activities[a]);
  }
  resources.Settle(Time());
  for (std::uint32_t a = 0; a < activities.size(); ++a) rates.push_back(resources.rate_units(a));
  return rates;
}

TEST(FairRatesTest, TwoThatNeedAllOfItTakeHalfEach) {
  const std::vector<Use> all = {{0, SharedResources::kWhole}};
  EXPECT_EQ(FairRateOfTwo(all, all), SharedResources::kFullRate / 2);
}

TEST(FairRatesTest, ASecondResourceFillsUpLater) {
  // Resource 0: a and b with all of it. Resource 1: b with half, c and d with all of it.
  //   level of 0 is 1/2, of 1 is 1 / 2.5 = 2/5: b, c, d are fixed at 2/5, rounded down.
  //   a has what b leaves of resource 0: 1 - 2/5 = 3/5, which is not less for the rounding.
  constexpr std::uint32_t kWhole = SharedResources::kWhole;
  const auto rates =
      FairRates({{{0, kWhole}}, {{0, kWhole}, {1, kWhole / 2}}, {{1, kWhole}}, {{1, kWhole}}});
  const std::uint64_t two_fifths = SharedResources::kFullRate * 2 / 5;
  EXPECT_EQ(rates, (std::vector<std::uint64_t>{SharedResources::kFullRate - two_fifths, two_fifths,
                                               two_fifths, two_fifths}));
}

std::uint32_t AnyShare() {
  constexpr std::uint32_t kWhole = SharedResources::kWhole;
  return *rc::gen::oneOf(
      rc::gen::inRange<std::uint32_t>(0, kWhole + 1),
      rc::gen::element<std::uint32_t>(0, 1, kWhole / 2, kWhole / 3, kWhole - 1, kWhole));
}

// None to all of a few resources, some of them with nothing, in any order; or the uses of one that
// there is already.
std::vector<std::vector<Use>> AnyActivities(std::uint32_t resources) {
  std::vector<std::vector<Use>> activities(*rc::gen::inRange<std::size_t>(1, 6));
  for (std::size_t a = 0; a < activities.size(); ++a) {
    if (a > 0 && *rc::gen::inRange(0, 4) == 0) {
      activities[a] = activities[*rc::gen::inRange<std::size_t>(0, a)];
      continue;
    }
    for (std::uint32_t r = 0; r < resources; ++r) {
      if (*rc::gen::arbitrary<bool>()) activities[a].push_back({r, AnyShare()});
    }
    if (*rc::gen::arbitrary<bool>()) std::reverse(activities[a].begin(), activities[a].end());
  }
  return activities;
}

RC_GTEST_PROP(FairRatesProperty, TheyAreThoseOfTheEngine, ()) {
  const auto activities = AnyActivities(*rc::gen::inRange<std::uint32_t>(1, kMostSharedByFew + 1));
  RC_ASSERT(FairRates(activities) == RatesOfEngine(activities));
}

RC_GTEST_PROP(FairRatesProperty, TwoRunAtOneRate, ()) {
  auto activities = AnyActivities(5);
  RC_PRE(activities.size() >= 2U);
  activities.resize(2);
  const std::uint64_t rate = FairRateOfTwo(activities[0], activities[1]);
  RC_ASSERT(RatesOfEngine(activities) == (std::vector<std::uint64_t>{rate, rate}));
}

}  // namespace
}  // namespace stepcast::engine
