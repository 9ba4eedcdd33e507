// The search's answers equal those of simulating every plan.

#include "src/planner/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/stop.h"
#include "src/planner/answers.h"
#include "src/planner/plan_space.h"
#include "src/planner/search_problem.h"
#include "src/planner/sweep_grid.h"
#include "src/planner/worker_pool.h"
#include "src/scenario/load.h"
#include "tests/samples/samples.h"

namespace stepcast::planner {
namespace {

using testing::ElementsAre;

bool Feasible(const Goal& goal, const PlanFacts& facts, const Outcome& outcome) {
  if (!outcome.illegal_message.empty() || !outcome.fits) return false;
  if (outcome.over + HeadroomOf(goal, facts) > Bytes(0)) return false;
  return !goal.training.deadline ||
         TrainingSeconds(goal.training, StepOf(facts, outcome.step_time)) <=
             *goal.training.deadline;
}

// Time per token as a whole number: 2^20 is divisible by every number of tokens here.
std::int64_t TimeForAToken(const PlanFacts& facts, Time step_time) {
  constexpr std::int64_t kTokens = 1 << 20;
  RC_ASSERT(kTokens % facts.tokens == 0);
  return step_time.picoseconds() * (kTokens / facts.tokens);
}

// The ranking by definition: safe plans first; then better under the goal, less time per token,
// less memory, lower number.
std::vector<std::int64_t> Ranked(const SearchProblem& problem, const Goal& goal) {
  using Key = std::tuple<bool, double, std::int64_t, std::int64_t, std::int64_t>;
  std::vector<Key> keys;
  for (std::int64_t plan = 0; plan < problem.plans; ++plan) {
    const Screened screened = problem.screen(plan);
    if (!screened.illegal_code.empty() || screened.same_as_another) continue;
    const Outcome outcome = problem.simulate(plan);
    if (!Feasible(goal, screened.facts, outcome)) continue;
    double first = 0;
    if (goal.target == Target::kThroughput || goal.target == Target::kCost) {
      Goal priced = goal;
      priced.training.gpu_hour_price = 1;
      first = MoneyOfMillionTokens(priced.training, StepOf(screened.facts, outcome.step_time));
    } else if (goal.target == Target::kEnergy) {
      Goal whole = goal;
      whole.training.tokens = 1e6 * static_cast<double>(screened.facts.tokens);
      whole.training.pue = 1;
      first = EnergyOfTraining(whole.training, StepOf(screened.facts, outcome)) /
              static_cast<double>(screened.facts.tokens);
    } else if (goal.target == Target::kGpus) {
      first = static_cast<double>(screened.facts.gpus);
    } else if (goal.target == Target::kMemory) {
      first = static_cast<double>(outcome.memory.count());
    }
    keys.emplace_back(!IsSafe(outcome), first, TimeForAToken(screened.facts, outcome.step_time),
                      outcome.memory.count(), plan);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int64_t> plans;
  for (const Key& key : keys) plans.push_back(std::get<4>(key));
  return plans;
}

std::vector<std::int64_t> Front(const SearchProblem& problem, const Goal& goal) {
  struct Point {
    std::int64_t plan = 0;
    std::int64_t gpus = 0;
    std::int64_t time = 0;  // for a token
    Bytes memory;
  };
  std::vector<Point> points;
  const std::vector<std::int64_t> ranked = Ranked(problem, goal);
  for (const std::int64_t plan : ranked) {
    const Outcome outcome = problem.simulate(plan);
    // Unsafe plans rank after all others, and exclude none of them.
    const bool best_is_safe = IsSafe(problem.simulate(ranked.front()));
    if (!IsSafe(outcome) && best_is_safe) continue;
    const PlanFacts facts = problem.screen(plan).facts;
    points.push_back({plan, facts.gpus, TimeForAToken(facts, outcome.step_time), outcome.memory});
  }
  std::vector<Point> front;
  for (const Point& point : points) {
    const bool dominated = std::any_of(points.begin(), points.end(), [&](const Point& other) {
      const bool no_worse =
          other.time <= point.time && other.memory <= point.memory && other.gpus <= point.gpus;
      const bool better =
          other.time < point.time || other.memory < point.memory || other.gpus < point.gpus;
      return no_worse && (better || other.plan < point.plan);
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

// A full ranking without plans that tie with an earlier one of their kind.
std::vector<std::int64_t> WithoutAlike(const SearchProblem& problem, const SearchOptions& options,
                                       const std::vector<std::int64_t>& ranked) {
  std::vector<std::int64_t> best;
  for (const std::int64_t plan : ranked) {
    const bool alike = std::any_of(best.begin(), best.end(), [&](std::int64_t other) {
      return options.kind(other) == options.kind(plan) &&
             Tied(problem.simulate(other), problem.simulate(plan));
    });
    if (!alike) best.push_back(plan);
  }
  return best;
}

// The best of each group, within the stated bound.
void CheckGroups(const SearchProblem& problem, const Goal& goal, const SearchOptions& options,
                 const SearchResult& result) {
  RC_ASSERT(static_cast<int>(result.groups.size()) == options.groups);
  const std::vector<std::int64_t> ranked = Ranked(problem, goal);
  for (int group = 0; group < options.groups; ++group) {
    const auto best = std::find_if(ranked.begin(), ranked.end(),
                                   [&](std::int64_t plan) { return options.group(plan) == group; });
    const GroupBest& said = result.groups[static_cast<std::size_t>(group)];
    RC_ASSERT(said.best < 0 || best != ranked.end());
    if (said.best < 0) continue;
    if (goal.target != Target::kStepTime) continue;
    const auto time = [&](std::int64_t plan) {
      return static_cast<double>(
          TimeForAToken(problem.screen(plan).facts, problem.simulate(plan).step_time));
    };
    RC_ASSERT(time(*best) >= said.least * time(said.best) * (1 - 1e-9));
  }
}

void CheckExact(const SearchProblem& problem, const Goal& goal, const SearchOptions& options) {
  const SearchResult result = Search(problem, goal, options);
  std::vector<std::int64_t> best = Ranked(problem, goal);
  const std::vector<std::int64_t> front = Front(problem, goal);
  if (options.kind) best = WithoutAlike(problem, options, best);
  best.resize(std::min(best.size(), static_cast<std::size_t>(options.best)));
  RC_ASSERT(result.best == best);
  RC_ASSERT(result.pareto == front);
  // All plans are counted, and simulated plans have their own outcomes.
  std::int64_t all = 0;
  for (int verdict = 0; verdict < kVerdicts; ++verdict)
    all += result.Count(static_cast<Verdict>(verdict));
  RC_ASSERT(all == problem.plans);
  RC_ASSERT(result.Count(Verdict::kSimulated) >= static_cast<std::int64_t>(best.size()));
  for (const std::int64_t plan : best) {
    RC_ASSERT(result.outcomes.at(plan).step_time == problem.simulate(plan).step_time);
  }
  // Any number of threads finds and prunes the same.
  SearchOptions single = options;
  single.threads = 1;
  const SearchResult again = Search(problem, goal, single);
  RC_ASSERT(again.best == result.best);
  RC_ASSERT(again.pareto == result.pareto);
  for (std::int64_t plan = 0; plan < problem.plans; ++plan) {
    RC_ASSERT(again.states.Of(plan).verdict == result.states.Of(plan).verdict);
  }
  CheckGroups(problem, goal, options, result);
  RC_ASSERT(again.nearest == result.nearest);
  RC_ASSERT(again.ties == result.ties);
  RC_ASSERT(again.shared == result.shared);
}

// A later search of the same plans with another goal is exact, too.
void CheckLaterSearch(const SearchProblem& problem, const Goal& goal, const Goal& later,
                      SearchOptions options) {
  const SearchResult result = Search(problem, goal, options);
  options.pareto = false;
  options.kind = nullptr;
  std::vector<std::int64_t> best = Ranked(problem, later);
  best.resize(std::min(best.size(), static_cast<std::size_t>(options.best)));
  RC_ASSERT(Search(problem, later, options, &result).best == best);
}

// Plans with few distinct figures, so that ties are common, and bounds of any tightness.
struct AnyPlans {
  std::vector<Screened> first, second;
  std::vector<Outcome> outcomes;
  SearchProblem problem;

  AnyPlans() {
    const int count = *rc::gen::inRange(1, 60);
    const bool in_families = *rc::gen::arbitrary<bool>();
    std::vector<std::int64_t> families;
    PlanFacts facts;
    for (int i = 0; i < count; ++i) {
      if (i == 0 || !in_families || *rc::gen::inRange(0, 4) == 0) {
        families.push_back(i);
        facts = {.gpus = *rc::gen::element<std::int64_t>(8, 16, 32),
                 .tokens = *rc::gen::element<std::int64_t>(64, 128),
                 .capacity = Bytes(10),
                 .idle_watts = *rc::gen::element(0.0, 1.0)};
      }
      Outcome outcome;
      const auto below = [](std::int64_t value) {
        return *rc::gen::inRange<std::int64_t>(0, value + 1);
      };
      const std::int64_t time = *rc::gen::inRange<std::int64_t>(1, 12);
      const std::int64_t memory = *rc::gen::inRange<std::int64_t>(1, 12);
      outcome.step_time = Seconds(time);
      // More than at rest.
      const std::int64_t joules = time + *rc::gen::inRange<std::int64_t>(0, 12);
      outcome.joules = static_cast<double>(joules);
      outcome.memory = Bytes(memory);
      const std::int64_t lacks = memory - *rc::gen::inRange<std::int64_t>(4, 16);
      outcome.fits = lacks <= 0;
      outcome.over = Bytes(lacks);
      outcome.flushes = lacks > -2 && lacks <= 0 && *rc::gen::arbitrary<bool>() ? 1 : 0;
      if (*rc::gen::inRange(0, 4) == 0) outcome.fit_probability = kSafeFit / 2;
      Screened rough;
      rough.facts = facts;
      if (*rc::gen::inRange(0, 10) == 0) rough.illegal_code = "plan.batch";
      if (*rc::gen::inRange(0, 20) == 0) outcome.illegal_message = "no price";
      Screened sharp = rough;
      const auto bound_of = [&](std::int64_t t, std::int64_t m, double joules, double probability,
                                Bytes most_over) {
        const Bytes over = most_over - Bytes(*rc::gen::inRange<std::int64_t>(0, 6));
        return Bound{.step_time = Seconds(t),
                     .joules = static_cast<double>(below(static_cast<std::int64_t>(joules))),
                     .memory = Bytes(m),
                     .fits = over <= Bytes(0),
                     .fit_probability = probability,
                     .over = over};
      };
      sharp.bound = bound_of(below(time), below(memory), outcome.joules,
                             *rc::gen::element(outcome.fit_probability, 1.0), outcome.over);
      rough.bound = bound_of(below(static_cast<std::int64_t>(sharp.bound.step_time.seconds())),
                             below(sharp.bound.memory.count()), sharp.bound.joules,
                             *rc::gen::element(sharp.bound.fit_probability, 1.0), sharp.bound.over);
      // Plans with the same program have the same forecast.
      if (*rc::gen::arbitrary<bool>()) {
        sharp.program =
            fmt::format("{} {} {} {} {} {} {}", time, joules, memory, lacks, outcome.flushes,
                        outcome.fit_probability, outcome.illegal_message);
      }
      first.push_back(std::move(rough));
      second.push_back(std::move(sharp));
      outcomes.push_back(std::move(outcome));
    }
    const auto at = [](std::int64_t plan) { return static_cast<std::size_t>(plan); };
    problem = {.plans = count,
               .screen = [this, at](std::int64_t plan) { return first[at(plan)]; },
               .sharpen = [this, at](std::int64_t plan) { return second[at(plan)]; },
               .simulate = [this, at](std::int64_t plan) { return outcomes[at(plan)]; }};
    if (!in_families) return;
    problem.families = families;
    problem.screen_family = [this](std::size_t family) { return OfFamily(family); };
  }
  AnyPlans(const AnyPlans&) = delete;

  // The bound that holds for each plan of the family.
  Screened OfFamily(std::size_t family) const {
    const auto begin = static_cast<std::size_t>(problem.families[family]);
    const std::size_t end = family + 1 < problem.families.size()
                                ? static_cast<std::size_t>(problem.families[family + 1])
                                : first.size();
    Screened all = first[begin];
    for (std::size_t i = begin; i < end; ++i) {
      const Screened& plan = first[i];
      if (!plan.illegal_code.empty()) continue;
      if (!all.illegal_code.empty()) all = plan;
      all.bound.step_time = std::min(all.bound.step_time, plan.bound.step_time);
      all.bound.joules = std::min(all.bound.joules, plan.bound.joules);
      all.bound.memory = std::min(all.bound.memory, plan.bound.memory);
      all.bound.over = std::min(all.bound.over, plan.bound.over);
      all.bound.fits |= plan.bound.fits;
      all.bound.fit_probability = std::max(all.bound.fit_probability, plan.bound.fit_probability);
    }
    return all;
  }
};

Goal AnyGoal() {
  Goal goal;
  goal.target = *rc::gen::elementOf(std::vector<Target>(std::begin(kTargets), std::end(kTargets)));
  if (*rc::gen::arbitrary<bool>()) {
    goal.training.tokens = 1024;
    goal.training.deadline = *rc::gen::inRange(20, 120);
  }
  if (*rc::gen::arbitrary<bool>()) {
    goal.headroom = Bytes(*rc::gen::inRange<std::int64_t>(0, 6));
  } else {
    goal.headroom_part = *rc::gen::element(0.0, 0.1, 0.3);
  }
  return goal;
}

TEST(SearchTest, IsExactWhateverTheBoundsAre) {
  rc::detail::checkGTest([] {
    const AnyPlans plans;
    SearchOptions options{.best = *rc::gen::inRange(1, 8), .threads = 2};
    if (*rc::gen::arbitrary<bool>()) {
      options.kind = [](std::int64_t plan) { return plan % 3 == 0 ? "some" : "others"; };
    }
    if (*rc::gen::arbitrary<bool>()) {
      const std::vector<std::int64_t>& families = plans.problem.families;
      options.groups = 2;
      options.group = [&](std::int64_t plan) {
        const auto next = std::upper_bound(families.begin(), families.end(), plan);
        return static_cast<int>(families.empty() ? plan % 2 : (next - families.begin()) % 2);
      };
    }
    const std::vector<std::int64_t>& families = plans.problem.families;
    const std::int64_t of_first = families.empty()       ? 1
                                  : families.size() == 1 ? plans.problem.plans
                                                         : families[1];
    if (of_first == 1 && *rc::gen::arbitrary<bool>()) options.own = 0;
    const Goal goal = AnyGoal();
    CheckExact(plans.problem, goal, options);
    CheckLaterSearch(plans.problem, goal, AnyGoal(), options);
  });
}

// Two layers on a flat cluster, and every framework that needs no GPU. Values are those that `plan`
// tries, which tests the whole path from keys to bounds to forecasts.
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

// A part of the space around a scenario: a limited number of plans, from any place.
void CheckSpace(const std::string& text, const SpaceOptions& options, scenario::InputCache& cache) {
  const auto base = scenario::LoadText(text, "test", {}, cache);
  RC_ASSERT(base.has_value());
  const auto space = PlanSpace::Around(*base, options);
  RC_ASSERT(space.has_value());
  const std::int64_t count = std::min<std::int64_t>(space->size(), 24);
  const std::int64_t first = *rc::gen::inRange<std::int64_t>(0, space->size() - count + 1);
  const std::int64_t stride =
      *rc::gen::inRange<std::int64_t>(1, (space->size() - first) / count + 1);
  const auto load = [&](const std::vector<std::pair<std::string, std::string>>& settings) {
    std::vector<std::string> set;
    for (const auto& [key, value] : settings) set.push_back(fmt::format("{}={}", key, value));
    return scenario::LoadText(text, "test", set, cache);
  };
  std::vector<Result<scenario::Scenario>> scenarios, heads;
  std::vector<std::int64_t> families;
  std::pair<const PlanPart*, std::int64_t> family;
  for (std::int64_t plan = 0; plan < count; ++plan) {
    const std::int64_t number = first + plan * stride;
    scenarios.push_back(load(space->Settings(number)));
    heads.push_back(load(space->FamilySettings(number)));
    const PlanPart& part = space->PartOf(number);
    const std::pair of_plan(&part, (number - part.first) / part.family);
    if (plan == 0 || of_plan != family) families.push_back(plan);
    family = of_plan;
  }
  const auto loaded = [](const Result<scenario::Scenario>& scenario) {
    LoadedPlan plan{.scenario = scenario ? &*scenario : nullptr};
    if (scenario) return plan;
    const Diagnostic& mistake = scenario.error().front();
    plan.code = mistake.code;
    plan.message = mistake.message;
    plan.by_inner = std::all_of(scenario.error().begin(), scenario.error().end(),
                                [](const Diagnostic& one) { return one.code == "plan.schedule"; });
    return plan;
  };
  Goal goal;
  goal.target = *rc::gen::elementOf(std::vector<Target>(std::begin(kTargets), std::end(kTargets)));
  const PlanSource source{
      .plans = count,
      .families = families,
      .load = [&](std::int64_t plan) { return loaded(scenarios[static_cast<std::size_t>(plan)]); },
      .load_family =
          [&](std::int64_t plan) { return loaded(heads[static_cast<std::size_t>(plan)]); },
      // Samples leave out the plans that others are the same as.
      .has_twin = [](std::int64_t) { return false; },
      .energy = goal.target == Target::kEnergy};
  // If a family is illegal, all its plans are.
  for (std::size_t plan = 0; plan < scenarios.size(); ++plan) {
    const bool by_inner = !heads[plan] && loaded(heads[plan]).by_inner;
    RC_ASSERT(heads[plan] || by_inner || !scenarios[plan]);
  }
  SearchProblem problem = ProblemOf(source);
  // The reference result uses every outcome several times.
  std::map<std::int64_t, Outcome> outcomes;
  std::mutex mutex;
  problem.simulate = [&, simulate = std::move(problem.simulate)](std::int64_t plan) {
    {
      const std::scoped_lock lock(mutex);
      if (const auto found = outcomes.find(plan); found != outcomes.end()) return found->second;
    }
    const Outcome outcome = simulate(plan);
    const std::scoped_lock lock(mutex);
    return outcomes.emplace(plan, outcome).first->second;
  };
  CheckExact(problem, goal, {.best = *rc::gen::inRange(1, 6), .threads = 2});
}

TEST(SearchTest, AThousandSpacesAreSearchedExactly) {
  scenario::InputCache cache;
  const auto search_one = [&] {
    SpaceOptions options;
    options.nodes = *rc::gen::arbitrary<bool>();
    options.fix = {"data_parallel.zero_stage"};
    options.value_of = [](const std::string& key) -> std::optional<std::string> {
      if (key != "training.global_batch_size") return std::nullopt;
      return "8";
    };
    // Then steps of plans have unequal tokens.
    if (*rc::gen::inRange(0, 3) == 0) {
      options.vary = {{"training.gradient_accumulation", {"1", "2", "4"}}};
    }
    CheckSpace(AnySmallScenario(), options, cache);
  };
  // A hundred cases of ten spaces each.
  rc::detail::checkGTest([&] {
    for (int i = 0; i < 10; ++i) search_one();
  });
}

// Tensor parallelism, pipelines, virtual stages and data parallelism of GPT-2 on a node, and
// recomputation if the schedule supports it: plans with one class of ranks and with several.
constexpr const char* kUntied =
    "{kind: transformer, family: llama, num_hidden_layers: 12, hidden_size: 768, "
    "num_attention_heads: 12, intermediate_size: 2048, vocab_size: 32000}";
constexpr const char* kDividedScenario = R"(
stepcast: 1
model: {}
cluster: {{topology: topologies/{}.yaml, nodes: {}}}
training: {{sequence_length: {}, micro_batch_size: 1, global_batch_size: {}, precision: bf16,
           optimizer: adamw}}
data_parallel: {{zero_stage: {}, framework: {}}}
)";

TEST(SearchTest, SpacesOfTensorAndPipelineParallelismAreSearchedExactly) {
  scenario::InputCache cache;
  rc::detail::checkGTest([&] {
    const auto [framework, stage] = *rc::gen::element<std::pair<const char*, int>>(
        std::pair("megatron", 0), std::pair("megatron", 1), std::pair("reference", 0),
        std::pair("reference", 1), std::pair("fsdp2", 3), std::pair("nanotron", 0),
        std::pair("nanotron", 1));
    SpaceOptions options;
    options.fix = {"data_parallel.zero_stage"};
    options.value_of = [](const std::string& key) -> std::optional<std::string> {
      if (key != "training.global_batch_size") return std::nullopt;
      return "8";
    };
    options.vary = {{"parallelism.tensor", {"1", "2", "4"}},
                    {"parallelism.sequence_parallel", {"false", "true"}}};
    options.vary.push_back({"parallelism.pipeline", {"1", "2", "4"}});
    const bool fsdp2 = std::string_view(framework) == "fsdp2";
    if (std::string_view(framework) != "nanotron" && *rc::gen::arbitrary<bool>()) {
      options.vary.push_back({"parallelism.context", {"1", "2"}});
    }
    if (fsdp2) {
      const bool v = *rc::gen::arbitrary<bool>();
      options.vary.push_back(
          {"parallelism.schedule", v ? std::vector<std::string>{"1f1b", "zb_v"}
                                     : std::vector<std::string>{"gpipe", "breadth_first"}});
    } else {
      if (std::string_view(framework) == "nanotron") {
        options.vary.push_back({"parallelism.schedule", {"gpipe", "1f1b"}});
      } else if (*rc::gen::arbitrary<bool>()) {
        options.vary.push_back({"parallelism.virtual_stages", {"1", "3"}});
      } else if (std::string_view(framework) == "reference") {
        options.vary.push_back(
            {"parallelism.schedule", {"gpipe", "1f1b", "zb_h1", "interleaved_1f1b"}});
      }
    }
    CheckSpace(fmt::format(kDividedScenario, fsdp2 ? kUntied : "models/gpt2.yaml",
                           *rc::gen::element("dgx-a100", "pcie-8gpu", "l40s-4x25g"),
                           *rc::gen::inRange(1, 3), *rc::gen::element(128, 1024),
                           *rc::gen::element(16, 32), stage, framework),
               options, cache);
  });
}

// A mixture of experts on one or two nodes: degrees and dispatchers with tensor, pipeline and data
// parallelism.
TEST(SearchTest, SpacesOfExpertsAreSearchedExactly) {
  scenario::InputCache cache;
  const auto search_one = [&] {
    const char* const framework = *rc::gen::element("megatron", "megatron", "fsdp2");
    const bool megatron = std::string_view(framework) == "megatron";
    SpaceOptions options;
    options.fix = {"data_parallel.zero_stage"};
    options.value_of = [](const std::string& key) -> std::optional<std::string> {
      if (key != "training.global_batch_size") return std::nullopt;
      return "8";
    };
    options.vary = {{"parallelism.expert", {"1", "2", "4", "8"}},
                    {"parallelism.tensor", {"1", "2"}}};
    if (megatron) {
      options.vary.push_back({"experts.dispatcher", {"all_to_all", "all_gather"}});
      options.vary.push_back({"parallelism.pipeline", {"1", "2"}});
    }
    CheckSpace(fmt::format(kDividedScenario,
                           "{kind: transformer, family: mixtral, num_hidden_layers: 8, "
                           "hidden_size: 512, num_attention_heads: 8, intermediate_size: 1024, "
                           "num_experts: 8, num_experts_per_tok: 2, vocab_size: 32000}",
                           *rc::gen::element("dgx-h100", "dgx-a100"), *rc::gen::inRange(1, 3),
                           *rc::gen::element(512, 2048), *rc::gen::element(32, 64),
                           megatron ? 1 : 3, framework),
               options, cache);
  };
  // Five hundred spaces, or every fourth of a hundred.
  int cases = 0;
  rc::detail::checkGTest([&] {
    if (Samples(cases++ % 4 != 0, false)) return;
    for (int i = 0; i < Samples(1, 5); ++i) search_one();
  });
}

// The fastest plan does not fit, and the second is best; the others are ever slower and need no
// less memory. Plans are evaluated in rounds of sixteen, so not all are simulated.
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
  EXPECT_EQ(result.states.Of(0).verdict, Verdict::kDoesNotFit);
  EXPECT_EQ(result.states.Of(1).verdict, Verdict::kSimulated);
  EXPECT_EQ(result.states.Of(kPlans - 1).verdict, Verdict::kBound);
  EXPECT_LE(simulated, 16);
  EXPECT_EQ(result.Count(Verdict::kSimulated), simulated);
  EXPECT_EQ(result.Count(Verdict::kBound), kPlans - 1 - simulated);

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

// Plan 1 has a longer step but twice as many tokens, so it is better. Plan 0 is not on the front,
// because its memory is the same.
TEST(SearchTest, StepsOfUnequalTokensAreComparedByTimeForAToken) {
  const auto bounds = [](std::int64_t plan) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = plan == 0 ? 64 : 128, .capacity = Bytes(100)};
    screened.bound = {.step_time = Seconds(1)};
    return screened;
  };
  const SearchProblem problem{
      .plans = 2, .screen = bounds, .sharpen = bounds, .simulate = [](std::int64_t plan) {
        return Outcome{.step_time = Seconds(plan == 0 ? 4 : 7), .memory = Bytes(1), .fits = true};
      }};
  const SearchResult result = Search(problem, {}, {.best = 2});
  EXPECT_TRUE(result.UnequalTokens());
  EXPECT_THAT(result.best, ElementsAre(1, 0));
  EXPECT_THAT(result.pareto, ElementsAre(1));
}

// Reasons are counted separately even if they share a code.
TEST(SearchTest, CountsPlansThatCannotExistByReason) {
  const auto bounds = [](std::int64_t plan) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = 64, .capacity = Bytes(100)};
    if (plan > 0) {
      screened.illegal_code = "plan.batch";
      screened.illegal_message = plan == 1 ? "no multiple of 3" : "no multiple of 5";
      screened.illegal_hint = "another number";
    }
    return screened;
  };
  const SearchProblem problem{
      .plans = 4, .screen = bounds, .sharpen = bounds, .simulate = [](std::int64_t) {
        return Outcome{.step_time = Seconds(1), .memory = Bytes(1), .fits = true};
      }};
  const SearchResult result = Search(problem, {}, {.best = 1});
  ASSERT_EQ(result.illegal.size(), 1U);
  EXPECT_EQ(result.illegal.at("plan.batch").count, 3);
  const auto& messages = result.illegal.at("plan.batch").messages;
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages.at("no multiple of 3").count, 1);
  EXPECT_EQ(messages.at("no multiple of 5").count, 2);
  EXPECT_EQ(messages.at("no multiple of 5").hint, "another number");
}

// All plans fit and none meets the deadline: the fastest are nearest.
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
  goal.training.tokens = 100;  // ten steps
  goal.training.deadline = 69;
  const SearchResult result = Search(problem, goal, {.best = 1});
  EXPECT_THAT(result.best, ElementsAre());
  EXPECT_THAT(result.nearest, ElementsAre(2));
  EXPECT_EQ(result.Count(Verdict::kTooSlow), 3);
}

// Step times of ten plans agree to the fourth digit. Those of one kind that need no less memory are
// one entry; a plan that needs less, or is of another kind, is a separate entry.
TEST(SearchTest, TiesAreOneEntry) {
  const auto outcome_of = [](std::int64_t plan) {
    return Outcome{.step_time = Seconds(10) + Microseconds(plan),
                   .memory = Bytes(plan == 3 ? 500 : 1000 + plan),
                   .fits = true,
                   .over = Bytes(-100)};
  };
  const auto bounds = [&](std::int64_t plan) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = 10, .capacity = Bytes(2000)};
    screened.bound = {.step_time = Seconds(10) + Microseconds(plan), .over = Bytes(-100)};
    return screened;
  };
  const SearchProblem problem{
      .plans = 10, .screen = bounds, .sharpen = bounds, .simulate = outcome_of};
  SearchOptions options{.best = 3};
  options.kind = [](std::int64_t plan) { return plan == 7 ? "another" : "one"; };
  const SearchResult result = Search(problem, {}, options);
  EXPECT_THAT(result.best, ElementsAre(0, 3, 7));
  ASSERT_EQ(result.ties.size(), 1U);
  EXPECT_THAT(result.ties.at(0), ElementsAre(1, 2, 4, 5, 6, 8, 9));
}

// Ninety plans tie with the first: the ranking ends at the 64th and has one entry.
TEST(SearchTest, RankingEndsWhereTooManyTie) {
  const auto bounds = [&](std::int64_t plan) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = 10, .capacity = Bytes(2000)};
    screened.bound = {.step_time = plan < 90 ? Seconds(10) : Seconds(20), .over = Bytes(-100)};
    return screened;
  };
  std::atomic<int> simulated{0};
  const SearchProblem problem{
      .plans = 120, .screen = bounds, .sharpen = bounds, .simulate = [&](std::int64_t plan) {
        ++simulated;
        return Outcome{
            .step_time = plan < 90 ? Seconds(10) : Seconds(20), .memory = Bytes(7), .fits = true};
      }};
  SearchOptions options{.best = 3, .pareto = false};
  options.kind = [](std::int64_t) { return "one"; };
  EXPECT_THAT(Search(problem, {}, options).best, ElementsAre(0));
  EXPECT_LE(simulated, 90);
}

// One forecast serves all plans with the same program, whichever is requested first.
TEST(SearchTest, PlansOfOneProgramShareAForecast) {
  const auto bounds = [&](std::int64_t plan) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = 10, .capacity = Bytes(2000)};
    screened.program = plan % 2 == 0 ? "even" : "odd";
    return screened;
  };
  std::atomic<int> simulated{0};
  const SearchProblem problem{
      .plans = 40, .screen = bounds, .sharpen = bounds, .simulate = [&](std::int64_t plan) {
        ++simulated;
        return Outcome{
            .step_time = Seconds(10 + plan % 2), .memory = Bytes(7 - plan % 2), .fits = true};
      }};
  const SearchResult result = Search(problem, {}, {.best = 2});
  EXPECT_THAT(result.best, ElementsAre(0, 2));
  EXPECT_THAT(result.pareto, ElementsAre(0, 1));
  EXPECT_EQ(simulated, 2);
  EXPECT_EQ(static_cast<std::int64_t>(result.outcomes.size()) - result.shared, 2);
}

TEST(SearchTest, HeadroomLeavesOutWhatFitsTooTightly) {
  const auto outcome_of = [](std::int64_t plan) {
    return Outcome{.step_time = Seconds(1 + plan),
                   .memory = Bytes(90 - 10 * plan),
                   .fits = true,
                   .over = Bytes(-10 - 10 * plan)};
  };
  const auto bounds = [&](std::int64_t) {
    Screened screened;
    screened.facts = {.gpus = 8, .tokens = 10, .capacity = Bytes(100)};
    screened.bound = {.step_time = Seconds(1), .over = Bytes(-100)};
    return screened;
  };
  const SearchProblem problem{
      .plans = 4, .screen = bounds, .sharpen = bounds, .simulate = outcome_of};
  Goal goal;
  goal.headroom_part = 0.25;  // 25 bytes: plans leave 10, 20, 30, 40
  EXPECT_THAT(Search(problem, goal, {.best = 1}).best, ElementsAre(2));
  goal.headroom_part = 0;
  goal.headroom = Bytes(20);
  EXPECT_THAT(Search(problem, goal, {.best = 1}).best, ElementsAre(1));
  goal.headroom = Bytes(60);  // none: the one that leaves most lacks least
  const SearchResult none = Search(problem, goal, {.best = 1});
  EXPECT_THAT(none.best, ElementsAre());
  EXPECT_THAT(none.nearest, ElementsAre(3));
}

// Plan n takes 100 - n seconds; its bound is within a tenth.
SearchProblem Descending(std::int64_t plans) {
  const auto bounds = [](std::int64_t plan) {
    return Screened{.facts = {.gpus = 8, .tokens = 64, .capacity = Bytes(100)},
                    .bound = {.step_time = Seconds(90 - plan), .over = Bytes(-90)}};
  };
  return {
      .plans = plans, .screen = bounds, .sharpen = bounds, .simulate = [](std::int64_t plan) {
        return Outcome{
            .step_time = Seconds(100 - plan), .memory = Bytes(1), .fits = true, .over = Bytes(-90)};
      }};
}

TEST(SearchTest, EndsWithWhatItHasFound) {
  constexpr std::int64_t kPlans = 80;
  const SearchProblem problem = Descending(kPlans);
  int asked = 0;
  SearchOptions options{.best = 1, .threads = 1};
  options.group = [](std::int64_t plan) { return static_cast<int>(plan % 2); };
  options.groups = 2;
  // Screening, and bounds and forecasts of some plans of a group.
  options.enough = [&] { return ++asked > kPlans + 3; };
  const SearchResult ended = Search(problem, {}, options);
  ASSERT_EQ(ended.best.size(), 1U);
  EXPECT_FALSE(ended.proved);
  EXPECT_GT(ended.open, 0);
  EXPECT_EQ(ended.Count(Verdict::kOpen), ended.open);
  // The true best lies within the stated range of open plans.
  const double best = ended.outcomes.at(ended.best.front()).step_time.seconds();
  EXPECT_LE(best * ended.least, 100.0 - (kPlans - 1));
  EXPECT_TRUE(ended.pareto.empty());

  options.enough = nullptr;
  const SearchResult whole = Search(problem, {}, options);
  EXPECT_TRUE(whole.proved);
  EXPECT_THAT(whole.best, ElementsAre(kPlans - 1));
  ASSERT_EQ(whole.groups.size(), 2U);
  EXPECT_EQ(whole.groups[0].best, kPlans - 2);
  EXPECT_EQ(whole.groups[1].best, kPlans - 1);

  // It goes on with the plans that have bounds by then, which come 64 at a time, and the others
  // stay open.
  constexpr std::int64_t kBounded = 64;
  options.bounded_enough = [] { return true; };
  const SearchResult part = Search(problem, {}, options);
  EXPECT_FALSE(part.proved);
  EXPECT_THAT(part.best, ElementsAre(kBounded - 1));
  EXPECT_EQ(part.open, kPlans - kBounded);
  options.bounded_enough = nullptr;

  // A search that may end at once ends without an answer; it always forecasts the own plan.
  options.enough = [] { return true; };
  EXPECT_TRUE(Search(problem, {}, options).best.empty());
  options.own = 3;
  EXPECT_THAT(Search(problem, {}, options).best, ElementsAre(3));
}

// Bounds that say nothing: the search finds the best of 1,000 plans by steps of 100, one value of a
// setting each, and would need 700 forecasts in the order of the plans.
TEST(SearchTest, TriesTheNeighborsOfTheBestPlan) {
  const auto bounds = [](std::int64_t) {
    return Screened{.facts = {.gpus = 8, .tokens = 64, .capacity = Bytes(100)},
                    .bound = {.step_time = Seconds(1), .over = Bytes(-90)}};
  };
  int simulated = 0;
  const SearchProblem problem = {
      .plans = 1'000, .screen = bounds, .sharpen = bounds, .simulate = [&](std::int64_t plan) {
        ++simulated;
        return Outcome{.step_time = Seconds(100 + std::abs(plan / 100 - 7) + plan % 100),
                       .memory = Bytes(1),
                       .fits = true,
                       .over = Bytes(-90)};
      }};
  SearchOptions options{.best = 1, .threads = 1};
  options.kind = [](std::int64_t plan) { return std::to_string(plan); };
  options.group = [](std::int64_t) { return 0; };
  options.groups = 1;
  options.anytime = true;
  options.enough = [&] { return simulated >= 200; };
  EXPECT_NE(Search(problem, {}, options).best.front(), 700);
  simulated = 0;
  options.neighbours = [](std::int64_t plan) {
    std::vector<std::int64_t> plans;
    for (const std::int64_t other : {plan - 100, plan + 100}) {
      if (other >= 0 && other < 1'000) plans.push_back(other);
    }
    return plans;
  };
  const SearchResult result = Search(problem, {}, options);
  EXPECT_THAT(result.best, ElementsAre(700));
  EXPECT_FALSE(result.proved);
}

// Once the own plan has a forecast, it is ranked whatever the goal, even if the time limit has
// passed before the search begins.
TEST(SearchTest, RanksTheOwnPlanAfterTheTimeLimit) {
  const SearchProblem problem = Descending(40);
  StopFlag stop;
  stop.Request();
  const auto pool = MakeThreadPool(
      [&stop, work = WorkOf(problem)](const std::string& item) {
        const StopScope scope(stop);
        return work(item);
      },
      1);
  SearchOptions options{.best = 2, .enough = [] { return true; }, .anytime = true};
  options.own = 3;
  options.own_outcome = problem.simulate(3);
  for (const Target target : kTargets) {
    for (const double headroom : {0.0, 0.5}) {
      Goal goal;
      goal.target = target;
      goal.training.tokens = 640;  // ten steps
      goal.training.deadline = 1000;
      goal.headroom_part = headroom;
      Answers answers(problem, *pool);
      const auto result = Search(answers, goal, options);
      ASSERT_TRUE(result);
      EXPECT_THAT(result->best, ElementsAre(3)) << Name(target);
      EXPECT_FALSE(result->proved);
      // So does a later search among some plans, for example those with the same number of GPUs.
      const auto again = Search(answers, goal, options, &*result);
      ASSERT_TRUE(again);
      EXPECT_THAT(again->best, ElementsAre(3)) << Name(target);
    }
  }
}

TEST(SearchTest, ChoosesAmongThoseThatAreAskedFor) {
  const SearchProblem problem = Descending(40);
  const SearchResult all = Search(problem, {}, {.best = 1});
  SearchOptions among{.best = 1, .pareto = false};
  among.among = [](std::int64_t plan) { return plan < 7; };
  const SearchResult some = Search(problem, {}, among, &all);
  EXPECT_THAT(some.best, ElementsAre(6));
}

// In turn for each reason. Plans that do not fit are ordered by missing memory, among those with
// better bounds.
TEST(SearchTest, NamesRunnersUpOfEachReason) {
  SearchResult result;
  constexpr std::int64_t kPlans = 8;
  result.states = PlanStates(kPlans, {});
  std::int64_t plan = -1;
  const auto add = [&](Verdict verdict, std::int64_t time, std::int64_t over, bool simulated) {
    PlanStates::Family& family = result.states.At(static_cast<std::size_t>(++plan));
    family.facts = {.gpus = 8, .tokens = 10, .capacity = Bytes(100)};
    family.whole.verdict = verdict;
    family.whole.bound = {.step_time = Seconds(time), .fits = over <= 0, .over = Bytes(over)};
    if (simulated) {
      result.outcomes[plan] = {
          .step_time = Seconds(time), .memory = Bytes(1), .fits = over <= 0, .over = Bytes(over)};
    }
  };
  add(Verdict::kSimulated, 10, -5, true);  // 0: the best
  add(Verdict::kDoesNotFit, 2, 900, false);
  add(Verdict::kDoesNotFit, 9, 3, false);   // 2: lacks less
  add(Verdict::kDoesNotFit, 11, 1, false);  // not better than the best if it did fit
  add(Verdict::kBound, 30, -5, false);
  add(Verdict::kBound, 12, -5, false);     // 5
  add(Verdict::kSimulated, 13, -5, true);  // 6
  add(Verdict::kIllegal, 1, -5, false);
  result.best = {0};
  const auto kind = [](std::int64_t plan) { return fmt::format("{}", plan); };
  EXPECT_THAT(RunnersUp(result, {}, 3, kind), ElementsAre(6, 5, 2));
  EXPECT_THAT(RunnersUp(result, {}, 9, kind), ElementsAre(6, 5, 4, 2, 1));
}

}  // namespace
}  // namespace stepcast::planner
