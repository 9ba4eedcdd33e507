// Four invariants of searches, tested from outside the planner. Scenarios come from the generator
// of any_plan.h, which does not know the search space, and the search does not start with the
// scenario's own plan.
//
// 1. Restricted to the scenario's own values, the space has exactly one legal plan. Its forecast
//    equals the scenario's to the byte. STEPCAST_SCENARIOS is the number of scenarios (default
//    100), and STEPCAST_SEED the first seed. At least half of them have pipelines.
// 2. A search with --within finds a plan at least as fast as the scenario, and states the forecast
//    of that plan. STEPCAST_SEARCHES is the number of scenarios (3), and STEPCAST_WITHIN the time of
//    each search (20s).
// 3. Plans of other frameworks are not refused because of settings of the scenario that these
//    frameworks lack. STEPCAST_OTHERS is the number of scenarios (20).
// 4. A search that starts with the scenario's own plan ranks this plan, or a faster one, even if
// its
//    time is over before the plan's forecast is complete.

#include "src/study/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/forecast/forecast.h"
#include "src/planner/search_table.h"
#include "src/planner/sweep_grid.h"
#include "src/planner/worker_pool.h"
#include "src/report/answers.h"
#include "src/scenario/key_values.h"
#include "src/scenario/load.h"
#include "src/scenario/memory_document.h"
#include "tests/property/any_plan.h"

namespace stepcast {
namespace {

using scenario::Resolved;
using scenario::Scenario;

constexpr const char* kFile = "any-plan.yaml";

// The value of a dotted key of the resolved scenario; "null" if it has none.
std::string ValueOf(const Resolved& resolved, std::string_view key) {
  const Resolved* node = &resolved;
  while (!key.empty()) {
    const std::string_view word = key.substr(0, key.find('.'));
    key.remove_prefix(std::min(word.size() + 1, key.size()));
    const auto* const mapping = std::get_if<Resolved::Mapping>(&node->value);
    if (mapping == nullptr) return "null";
    const Resolved* next = nullptr;
    for (const auto& [name, value] : *mapping) {
      if (name == word) next = &value;
    }
    if (next == nullptr) return "null";
    node = next;
  }
  if (const auto* text = std::get_if<std::string>(&node->value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&node->value))
    return fmt::format("{}", *number);
  if (const auto* is = std::get_if<bool>(&node->value)) return *is ? "true" : "false";
  return "null";
}

// A legal scenario of the generator, with its forecast.
struct Own {
  PlanText text;
  Scenario scenario;
  forecast::Forecast forecast;
};

class PlanSearchLaws : public testing::Test {
 protected:
  // The next legal scenario from this seed on; every second one has a pipeline.
  Own Next(std::uint64_t& seed) {
    for (;; ++seed) {
      PlanText text = PlanOf(seed);
      SayWhenItEnds(text);
      auto scenario = scenario::LoadText(text.scenario, kFile, text.settings, cache_);
      if (!scenario) continue;
      const bool pipeline = scenario->plan.parallelism.pipeline > 1;
      if (pipeline != (2 * pipelines_ <= scenarios_)) continue;
      if (scenario->plan.training.has_padded_lengths()) continue;  // `plan` refuses these
      auto run = forecast::FiguresOf(*scenario);
      if (!run) continue;
      ++scenarios_;
      pipelines_ += pipeline ? 1 : 0;
      ++seed;
      return {std::move(text), *std::move(scenario), *std::move(run)};
    }
  }

  // A search around the scenario that does not start with its own plan.
  static study::PlanQuestion QuestionOf(const Own& own, const std::string& file) {
    study::PlanQuestion question;
    question.scenario = file;
    question.set = own.text.settings;
    question.try_own = false;
    question.no_sensitivity = true;
    question.no_front = true;
    question.headroom = "0";
    question.threads = 1;
    return question;
  }

  scenario::InputCache cache_;
  std::uint64_t scenarios_ = 0, pipelines_ = 0;
};

TEST_F(PlanSearchLaws, TheSpaceHasTheScenariosPlanOnce) {
  const std::uint64_t wanted = NumberFrom("STEPCAST_SCENARIOS", 100);
  std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1), failed = 0;
  while (scenarios_ < wanted) {
    const Own own = Next(seed);
    const scenario::MemoryDocument document("any-plan.yaml", own.text.scenario);
    study::PlanQuestion question = QuestionOf(own, document.name());
    const plan::DataParallel& data_parallel = own.scenario.plan.data_parallel;
    question.vary = {fmt::format("data_parallel.framework={}", plan::Name(data_parallel.framework)),
                     fmt::format("data_parallel.zero_stage={}", data_parallel.zero_stage)};
    for (const planner::SearchRow& row : planner::SearchTable()) {
      if (!row.uses.HasEffect(data_parallel.framework, data_parallel.zero_stage)) continue;
      const auto written =
          scenario::WrittenValue(row.key, document.name(), own.text.settings, cache_);
      const bool of_layout = row.level == planner::SearchLevel::kLayout;
      question.vary.push_back(fmt::format("{}={}", row.key,
                                          written     ? *written
                                          : of_layout ? ValueOf(own.scenario.resolved, row.key)
                                                      : planner::kDefaultValue));
    }
    const auto search = study::PlanSearch::Of(std::move(question));
    std::string fault;
    if (const auto ready = search->Prepare(); !ready) {
      fault = "the space cannot be built: " + Format(ready.error());
    } else {
      std::vector<std::string> reasons;
      std::int64_t legal = 0;
      for (std::int64_t plan = 0; plan < search->plans(); ++plan) {
        const auto planned = search->ScenarioOf(plan);
        if (!planned) {
          reasons.push_back(planned.error().front().message);
          continue;
        }
        ++legal;
        const auto run = forecast::FiguresOf(*planned);
        if (!run || report::SimulateJson(own.scenario, *run, 0) !=
                        report::SimulateJson(own.scenario, own.forecast, 0)) {
          fault = "the plan's forecast is another: " + search->NameOf(plan);
        }
      }
      if (legal != 1) {
        fault = fmt::format("{} plans of {} can exist: {}", legal, search->plans(),
                            reasons.empty() ? "" : reasons.front());
      }
    }
    if (fault.empty()) continue;
    ++failed;
    ADD_FAILURE() << fault << "\nseed " << seed - 1 << "\n" << Said(own.text);
  }
  fmt::print("{} scenarios, {} with pipelines: {} failed\n", scenarios_, pipelines_, failed);
  EXPECT_GE(2 * pipelines_, scenarios_ - 1);
}

// 8 micro-batches are not divisible by 5 stages, so interleaved stages need groups of another size.
TEST_F(PlanSearchLaws, PlansOfUnevenGroupsAreInTheSpace) {
  const scenario::MemoryDocument document("uneven.yaml", R"(
stepcast: 1
model: llama2-13b
cluster: {topology: dgx-a100, nodes: 5}
training: {sequence_length: 4096, micro_batch_size: 1, global_batch_size: 8, precision: bf16,
           optimizer: adamw, activation_checkpointing: selective}
data_parallel: {framework: megatron, zero_stage: 1}
parallelism: {tensor: 8, sequence_parallel: true, pipeline: 5, schedule: interleaved_1f1b,
              virtual_stages: 8, microbatch_group_size_per_vp_stage: 8}
)");
  study::PlanQuestion question;
  question.scenario = document.name();
  question.try_own = false;
  question.vary = {"data_parallel.framework=megatron",
                   "data_parallel.zero_stage=1",
                   "parallelism.tensor=8",
                   "parallelism.pipeline=5",
                   "parallelism.virtual_stages=8",
                   "parallelism.microbatch_group_size_per_vp_stage=8",
                   "training.tensor_overlap=none",
                   "data_parallel.bucket_size=null"};
  const auto search = study::PlanSearch::Of(std::move(question));
  const auto ready = search->Prepare();
  ASSERT_TRUE(ready.has_value()) << Format(ready.error());
  std::int64_t legal = 0;
  for (std::int64_t plan = 0; plan < search->plans(); ++plan) {
    const auto planned = search->ScenarioOf(plan);
    legal += planned ? 1 : 0;
    EXPECT_TRUE(planned) << search->NameOf(plan) << "\n" << Format(planned.error());
  }
  EXPECT_GT(legal, 0);
}

TEST_F(PlanSearchLaws, OtherFrameworksLeaveOutSettingsThatTheyLack) {
  constexpr std::int64_t kSamples = 48;  // plans of each search
  const std::uint64_t wanted = NumberFrom("STEPCAST_OTHERS", 20);
  std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1), failed = 0, searches = 0, without = 0;
  while (scenarios_ < wanted) {
    const Own own = Next(seed);
    const scenario::MemoryDocument document("any-plan.yaml", own.text.scenario);
    for (const plan::Framework framework : plan::kFrameworks) {
      if (framework == own.scenario.plan.data_parallel.framework ||
          !plan::TraitsOf(framework).searched_by_default) {
        continue;
      }
      study::PlanQuestion question = QuestionOf(own, document.name());
      question.framework = plan::Name(framework);
      const auto search = study::PlanSearch::Of(std::move(question));
      if (const auto ready = search->Prepare(); !ready) {
        ADD_FAILURE() << Format(ready.error()) << "\nseed " << seed - 1 << "\n" << Said(own.text);
        continue;
      }
      ++searches;
      std::string fault;
      std::int64_t legal = 0;
      const std::int64_t step = std::max<std::int64_t>(search->plans() / kSamples, 1);
      for (std::int64_t plan = 0; plan < search->plans(); plan += step) {
        const auto planned = search->ScenarioOf(plan);
        if (planned) {
          ++legal;
        } else if (planned.error().front().code == "plan.key-not-of-framework") {
          fault = planned.error().front().message + ": " + search->NameOf(plan);
        }
      }
      without += legal == 0 ? 1 : 0;
      if (fault.empty()) continue;
      ++failed;
      ADD_FAILURE() << fault << "\nseed " << seed - 1 << "\n" << Said(own.text);
    }
  }
  fmt::print("{} searches over other frameworks: {} failed, {} with no legal plan sampled\n",
             searches, failed, without);
}

TEST_F(PlanSearchLaws, ASearchFindsAPlanAtLeastAsFast) {
  const std::uint64_t wanted = NumberFrom("STEPCAST_SEARCHES", 3);
  const char* const within = std::getenv("STEPCAST_WITHIN");
  std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1), failed = 0, none_needed = 0;
  while (scenarios_ < wanted) {
    const Own own = Next(seed);
    if (!own.forecast.memory.fits) {
      ++none_needed;
      continue;
    }
    const scenario::MemoryDocument document("any-plan.yaml", own.text.scenario);
    study::PlanQuestion question = QuestionOf(own, document.name());
    question.within = within == nullptr ? "20s" : within;
    question.framework = plan::Name(own.scenario.plan.data_parallel.framework);
    const auto search = study::PlanSearch::Of(std::move(question));
    std::string fault;
    if (const auto ready = search->Prepare(); !ready) {
      fault = "the space cannot be built: " + Format(ready.error());
    } else {
      const auto pool =
          planner::MakeThreadPool([&](const std::string& item) { return search->Work(item); }, 2);
      const auto report = search->Run(*pool, nullptr);
      if (!report) {
        fault = "the search failed";
      } else if (report->best.empty()) {
        fault = "no plan was found";
      } else if (report->best.front().outcome.step_time > own.forecast.step_time) {
        fault = fmt::format("the best takes {:.4f} times as long: {}",
                            report->best.front().outcome.step_time / own.forecast.step_time,
                            search->NameOf(report->best.front().plan));
      } else {
        const auto best = search->ScenarioOf(report->best.front().plan);
        const auto run = best ? forecast::FiguresOf(*best) : tl::unexpected(best.error());
        if (!run || run->step_time != report->best.front().outcome.step_time) {
          fault =
              "the best plan has another forecast: " + search->NameOf(report->best.front().plan);
        }
      }
    }
    if (fault.empty()) continue;
    ++failed;
    ADD_FAILURE() << fault << "\nseed " << seed - 1 << "\n" << Said(own.text);
  }
  fmt::print("{} scenarios, {} do not fit: {} failed\n", scenarios_, none_needed, failed);
}

TEST_F(PlanSearchLaws, TheOwnPlanNeedsNoTime) {
  constexpr std::uint64_t kSearches = 6;
  std::uint64_t seed = NumberFrom("STEPCAST_SEED", 1), fitting = 0;
  while (fitting < kSearches) {
    const Own own = Next(seed);
    if (!own.forecast.memory.fits) continue;
    ++fitting;
    const scenario::MemoryDocument document(kFile, own.text.scenario);
    study::PlanQuestion question = QuestionOf(own, document.name());
    question.try_own = true;
    question.within = "0.001s";
    question.framework = plan::Name(own.scenario.plan.data_parallel.framework);
    const auto search = study::PlanSearch::Of(std::move(question));
    const auto ready = search->Prepare();
    ASSERT_TRUE(ready) << Format(ready.error());
    const auto pool =
        planner::MakeThreadPool([&](const std::string& item) { return search->Work(item); }, 1);
    const auto report = search->Run(*pool, nullptr);
    ASSERT_TRUE(report);
    ASSERT_FALSE(report->best.empty()) << "seed " << seed - 1 << "\n" << Said(own.text);
    EXPECT_LE(report->best.front().outcome.step_time, own.forecast.step_time);
  }
}

}  // namespace
}  // namespace stepcast
