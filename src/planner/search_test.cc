// The search's answers are those of simulating every plan.

#include "src/planner/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/planner/plan_problem.h"
#include "src/planner/plan_space.h"
#include "src/planner/sweep_grid.h"
#include "src/scenario/load.h"

namespace stepcast::planner {
namespace {

using testing::ElementsAre;

bool Feasible(const Goal& goal, const PlanFacts& facts, const Outcome& outcome) {
  if (!outcome.illegal_message.empty() || !outcome.fits) return false;
  return !goal.deadline ||
         TrainingSeconds(goal, facts, outcome.step_time) <= goal.deadline->seconds();
}

// By definition, plan against plan: what is better under the goal, then a shorter step, then less
// memory, then the lower number.
std::vector<std::int64_t> Ranked(const SearchProblem& problem, const Goal& goal) {
  using Key = std::tuple<double, std::int64_t, std::int64_t, std::int64_t>;
  std::vector<Key> keys;
  for (std::int64_t plan = 0; plan < problem.plans; ++plan) {
    const Screened screened = problem.screen(plan);
    if (!screened.illegal_code.empty() || screened.same_as_another) continue;
    const Outcome outcome = problem.simulate(plan);
    if (!Feasible(goal, screened.facts, outcome)) continue;
    double first = 0;
    if (goal.target == Target::kThroughput || goal.target == Target::kCost) {
      Goal priced = goal;
      priced.gpu_hour_price = 1;
      first = CostOfMillionTokens(priced, screened.facts, outcome.step_time);
    } else if (goal.target == Target::kGpus) {
      first = static_cast<double>(screened.facts.gpus);
    } else if (goal.target == Target::kMemory) {
      first = static_cast<double>(outcome.memory.count());
    }
    keys.emplace_back(first, outcome.step_time.picoseconds(), outcome.memory.count(), plan);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int64_t> plans;
  for (const Key& key : keys) plans.push_back(std::get<3>(key));
  return plans;
}

std::vector<std::int64_t> Front(const SearchProblem& problem, const Goal& goal) {
  struct Point {
    std::int64_t plan = 0;
    std::int64_t gpus = 0;
    Time time;
    Bytes memory;
  };
  std::vector<Point> points;
  for (const std::int64_t plan : Ranked(problem, goal)) {
    const Outcome outcome = problem.simulate(plan);
    points.push_back({plan, problem.screen(plan).facts.gpus, outcome.step_time, outcome.memory});
  }
  std::vector<Point> front;
  for (const Point& point : points) {
    const bool dominated = std::any_of(points.begin(), points.end(), [&](const Point& other) {
      const bool as_good =
          other.time <= point.time && other.memory <= point.memory && other.gpus <= point.gpus;
      const bool better =
          other.time < point.time || other.memory < point.memory || other.gpus < point.gpus;
      return as_good && (better || other.plan < point.plan);
    });
    if (!dominated) front.push_back(point);
  }
  std::sort(front.begin(), front.end(), [](const Point& a, const Point& b) {
    return std::tie(a.gpus, a.time, a.memory) < std::tie(b.gpus, b.time, b.memory);
  });
  std::vector<std::int64_t> plans;
  for (const Point& point : front) plans.push_back(point.plan);
  return plans;
}

void CheckExact(const SearchProblem& problem, const Goal& goal, const SearchOptions& options) {
  const SearchResult result = Search(problem, goal, options);
  std::vector<std::int64_t> best = Ranked(problem, goal);
  const std::vector<std::int64_t> front = Front(problem, goal);
  best.resize(std::min(best.size(), static_cast<std::size_t>(options.best)));
  RC_ASSERT(result.best == best);
  RC_ASSERT(result.pareto == front);
  // Everything is accounted for, and what was simulated is what it is.
  RC_ASSERT(result.Count(Fate::kSimulated) >= static_cast<std::int64_t>(best.size()));
  for (const std::int64_t plan : best) {
    RC_ASSERT(result.outcomes.at(plan).step_time == problem.simulate(plan).step_time);
  }
  // Any number of threads finds and prunes the same.
  SearchOptions single = options;
  single.threads = 1;
  const SearchResult again = Search(problem, goal, single);
  RC_ASSERT(again.best == result.best);
  RC_ASSERT(again.pareto == result.pareto);
  RC_ASSERT(again.fates == result.fates);
  RC_ASSERT(again.nearest == result.nearest);
}

// Plans of few different figures, so that ties are common, with bounds of any sharpness.
struct AnyPlans {
  std::vector<Screened> first, second;
  std::vector<Outcome> outcomes;
  SearchProblem problem;

  AnyPlans() {
    const int count = *rc::gen::inRange(1, 60);
    for (int i = 0; i < count; ++i) {
      Outcome outcome;
      const auto below = [](std::int64_t value) {
        return *rc::gen::inRange<std::int64_t>(0, value + 1);
      };
      const std::int64_t time = *rc::gen::inRange<std::int64_t>(1, 12);
      const std::int64_t memory = *rc::gen::inRange<std::int64_t>(1, 12);
      outcome.step_time = Seconds(time);
      outcome.memory = Bytes(memory);
      const std::int64_t lacks = memory - *rc::gen::inRange<std::int64_t>(4, 16);
      outcome.fits = lacks <= 0;
      outcome.over = Bytes(std::max<std::int64_t>(0, lacks));
      Screened rough;
      rough.facts = {.gpus = *rc::gen::element<std::int64_t>(8, 16, 32),
                     .tokens = *rc::gen::element<std::int64_t>(64, 128),
                     .capacity = Bytes(10)};
      if (*rc::gen::inRange(0, 10) == 0) rough.illegal_code = "plan.batch";
      if (*rc::gen::inRange(0, 20) == 0) outcome.illegal_message = "no price";
      Screened sharp = rough;
      const auto bound_of = [&](std::int64_t t, std::int64_t m) {
        const bool fits = outcome.fits || *rc::gen::arbitrary<bool>();
        return Bound{.step_time = Seconds(t),
                     .memory = Bytes(m),
                     .fits = fits,
                     .over = fits ? Bytes(0) : Bytes(below(outcome.over.count()))};
      };
      sharp.bound = bound_of(below(time), below(memory));
      rough.bound = {
          .step_time = Seconds(below(static_cast<std::int64_t>(sharp.bound.step_time.seconds()))),
          .memory = Bytes(below(sharp.bound.memory.count())),
          .fits = sharp.bound.fits || *rc::gen::arbitrary<bool>(),
          .over = Bytes(0)};
      first.push_back(std::move(rough));
      second.push_back(std::move(sharp));
      outcomes.push_back(std::move(outcome));
    }
    const auto at = [](std::int64_t plan) { return static_cast<std::size_t>(plan); };
    problem = {.plans = count,
               .screen = [this, at](std::int64_t plan) { return first[at(plan)]; },
               .sharpen = [this, at](std::int64_t plan) { return second[at(plan)]; },
               .simulate = [this, at](std::int64_t plan) { return outcomes[at(plan)]; }};
  }
};

Goal AnyGoal() {
  Goal goal;
  goal.target = *rc::gen::elementOf(std::vector<Target>(std::begin(kTargets), std::end(kTargets)));
  if (*rc::gen::arbitrary<bool>()) {
    goal.tokens = 1024;
    goal.deadline = Seconds(*rc::gen::inRange(20, 120));
  }
  return goal;
}

TEST(SearchTest, IsExactWhateverTheBoundsAre) {
  rc::detail::checkGTest([] {
    const AnyPlans plans;
    CheckExact(plans.problem, AnyGoal(), {.best = *rc::gen::inRange(1, 8), .threads = 2});
  });
}

// Two layers on a flat cluster, any framework that needs no GPU: what is tried is what `plan`
// tries, so that the whole way is tested, from keys to bounds to forecasts.
constexpr const char* kScenario = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {{name: a, repeat: {}, parameters: [{}, 1000], forward: {} us, backward: {} us,
       activation: {} KiB}}
  optimizer_step: 300 us
cluster:
  topology: {{kind: flat, devices: 4, memory: {} MiB, link: {{latency: 20 us, bandwidth: {} MB/s}}}}
training: {{sequence_length: 128, micro_batch_size: 1, global_batch_size: 8, precision: bf16,
           optimizer: adamw}}
data_parallel: {{zero_stage: {}, framework: {}}}
)";

std::string AnySmallScenario() {
  const auto [framework, stage] = *rc::gen::element<std::pair<const char*, int>>(
      std::pair("reference", 0), std::pair("reference", 2), std::pair("reference", 3),
      std::pair("ddp", 0), std::pair("fsdp1", 3), std::pair("fsdp2", 3), std::pair("megatron", 1),
      std::pair("deepspeed", 1), std::pair("deepspeed", 3));
  return fmt::format(kScenario, *rc::gen::inRange(1, 4), *rc::gen::inRange(100'000, 3'000'000),
                     *rc::gen::inRange(100, 5'000), *rc::gen::inRange(100, 9'000),
                     *rc::gen::inRange(0, 4'000), *rc::gen::element(16, 40, 90, 400),
                     *rc::gen::element(100, 1'000, 20'000), stage, framework);
}

TEST(SearchTest, AThousandSpacesAreSearchedExactly) {
  scenario::InputCache cache;
  const auto search_one = [&] {
    const std::string text = AnySmallScenario();
    const auto base = scenario::LoadText(text, "test", {}, cache);
    RC_ASSERT(base.has_value());
    SpaceOptions options;
    options.nodes = *rc::gen::arbitrary<bool>();
    options.fix = {"data_parallel.zero_stage"};
    options.has_key = [](const std::string& key) { return key == "training.global_batch_size"; };
    const auto space = PlanSpace::Around(*base, options);
    RC_ASSERT(space.has_value());
    // At most so many, from any place.
    const std::int64_t count = std::min<std::int64_t>(space->size(), 24);
    const std::int64_t first = *rc::gen::inRange<std::int64_t>(0, space->size() - count + 1);
    const std::int64_t stride =
        *rc::gen::inRange<std::int64_t>(1, (space->size() - first) / count + 1);
    std::vector<Result<scenario::Scenario>> scenarios;
    for (std::int64_t plan = 0; plan < count; ++plan) {
      std::vector<std::string> set;
      for (const auto& [key, value] : space->Settings(first + plan * stride)) {
        set.push_back(fmt::format("{}={}", key, value));
      }
      scenarios.push_back(scenario::LoadText(text, "test", set, cache));
    }
    const PlanSource source{
        .plans = count,
        .load = [&](std::int64_t plan) { return scenarios[static_cast<std::size_t>(plan)]; },
        // Samples leave out the plans that others are the same as.
        .has_twin = [](std::int64_t) { return false; }};
    const SearchProblem problem = ProblemOf(source);
    Goal goal;
    goal.target =
        *rc::gen::elementOf(std::vector<Target>(std::begin(kTargets), std::end(kTargets)));
    CheckExact(problem, goal, {.best = *rc::gen::inRange(1, 6), .threads = 2});
  };
  // A hundred cases of ten spaces each.
  rc::detail::checkGTest([&] {
    for (int i = 0; i < 10; ++i) search_one();
  });
}

// The fast one does not fit, the second is best; the others are ever slower and need no less
// memory. Plans are worked on sixteen at a time, so that not all of them are simulated.
TEST(SearchTest, SaysWhatBecameOfPlans) {
  constexpr std::int64_t kPlans = 60;
  const auto outcome_of = [](std::int64_t plan) {
    return plan == 0 ? Outcome{.step_time = Seconds(1),
                               .memory = Bytes(30),
                               .fits = false,
                               .over = Bytes(20)}
                     : Outcome{.step_time = Seconds(1 + plan), .memory = Bytes(9), .fits = true};
  };
  std::atomic<int> simulated{0};
  const auto bounds = [&](std::int64_t plan) {
    Screened screened;
    const Outcome outcome = outcome_of(plan);
    screened.facts = {.gpus = 8, .tokens = 8, .capacity = Bytes(10)};
    screened.bound = {.step_time = outcome.step_time,
                      .memory = outcome.memory,
                      .fits = outcome.fits,
                      .over = outcome.over};
    return screened;
  };
  const SearchProblem problem{
      .plans = kPlans, .screen = bounds, .sharpen = bounds, .simulate = [&](std::int64_t plan) {
        ++simulated;
        return outcome_of(plan);
      }};
  const SearchResult result = Search(problem, {}, {.best = 1});
  EXPECT_THAT(result.best, ElementsAre(1));
  EXPECT_THAT(result.pareto, ElementsAre(1));
  EXPECT_EQ(result.fates[0], Fate::kDoesNotFit);
  EXPECT_EQ(result.fates[1], Fate::kSimulated);
  EXPECT_EQ(result.fates[kPlans - 1], Fate::kBound);
  EXPECT_LE(simulated, 16);
  EXPECT_EQ(result.Count(Fate::kSimulated), simulated);
  EXPECT_EQ(result.Count(Fate::kBound), kPlans - 1 - simulated);

  // With three times the memory the first would be best.
  Goal roomier;
  roomier.spare_memory = 2;
  EXPECT_THAT(Search(problem, roomier, {.best = 1}, &result).best, ElementsAre(0));
}

TEST(SearchTest, WithoutAnAnswerNamesWhatComesNearest) {
  std::vector<Outcome> outcomes;
  for (const std::int64_t over : {50, 20, 90}) {
    outcomes.push_back(
        {.step_time = Seconds(1), .memory = Bytes(100 + over), .fits = false, .over = Bytes(over)});
  }
  const auto bounds = [&](std::int64_t) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = 8, .capacity = Bytes(100)};
    screened.bound = {.fits = false, .over = Bytes(1)};
    return screened;
  };
  const SearchProblem problem{
      .plans = 3, .screen = bounds, .sharpen = bounds, .simulate = [&](std::int64_t plan) {
        return outcomes[static_cast<std::size_t>(plan)];
      }};
  const SearchResult result = Search(problem, {}, {.best = 2});
  EXPECT_THAT(result.best, ElementsAre());
  EXPECT_THAT(result.nearest, ElementsAre(1, 0));
}

// All fit, none meets the deadline: the fastest come nearest.
TEST(SearchTest, TooSlowComesNearerThanTooLarge) {
  const auto bounds = [](std::int64_t plan) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = 10, .capacity = Bytes(100)};
    screened.bound = {.step_time = Seconds(9 - plan), .memory = Bytes(1)};
    return screened;
  };
  const SearchProblem problem{
      .plans = 3, .screen = bounds, .sharpen = bounds, .simulate = [](std::int64_t plan) {
        return Outcome{.step_time = Seconds(9 - plan), .memory = Bytes(1), .fits = true};
      }};
  Goal goal;
  goal.tokens = 100;  // ten steps
  goal.deadline = Seconds(69);
  const SearchResult result = Search(problem, goal, {.best = 1});
  EXPECT_THAT(result.best, ElementsAre());
  EXPECT_THAT(result.nearest, ElementsAre(2));
  EXPECT_EQ(result.Count(Fate::kTooSlow), 3);
}

}  // namespace
}  // namespace stepcast::planner
