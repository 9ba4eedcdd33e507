#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/report/json.h"
#include "src/report/pages.h"
#include "src/report/plan_report.h"
#include "src/scenario/resolved.h"

namespace stepcast::report {

// The settings in which two plans differ, in the order of reports.

struct SettingPair {
  std::string key;   // dotted: "data_parallel.zero_stage"
  std::string a, b;  // as in a scenario file; "" where the plan has no such key
};

// The keys of the resolved scenarios whose values differ, those of `a` first.
std::vector<SettingPair> DifferentSettings(const scenario::Resolved& a,
                                           const scenario::Resolved& b);

// The collectives of the same kind and group; null where a plan has none.
struct CollectivePair {
  const forecast::CollectiveSummary* a = nullptr;
  const forecast::CollectiveSummary* b = nullptr;
  const forecast::CollectiveSummary& any() const { return a != nullptr ? *a : *b; }
};

// Those of `a` in its order, then those that only `b` has.
std::vector<CollectivePair> PairCollectives(const forecast::Forecast& a,
                                            const forecast::Forecast& b);

// The part of the output of `plan` that answers by kind, and for a named layout. For the .cc files
// of this package only.

// "tensor 8, pipeline 7 x 15": how the plan's ranks share out model and sequences; "data 16" where
// they share out the batch alone.
std::string LayoutText(const plan::Plan& plan);
// Why a plan takes longer than another: "2,100.000 ms more waiting in the pipeline"; empty where
// that is not known.
std::string WhyLonger(const PlanRow& plan, const PlanRow& than);

// "megatron, tensor 2, data 4, ZeRO 1, mbs 2, recompute full": what tells plans apart at first
// sight.
std::string PlanInShort(const PlanRow& row);

std::string KindsText(const PlanReport& report);
Json KindsJson(const PlanReport& report);
std::string LayoutAnswerText(const PlanReport& report);
Json LayoutAnswerJson(const PlanReport& report);

// What text and document of `plan` say of a row. For the .cc files of this package only.

// How much memory is missing: what a plan needs and what is to stay free of a device, less what the
// device has. Everything that is said to be lacking is this.
Bytes Lacks(const planner::Goal& goal, const planner::PlanFacts& facts, Bytes over);

Bytes Needed(const planner::Outcome& outcome);

// What is shown of a plan in any table.
struct Shown {
  Time step_time;
  Bytes peak, needed;
};
Shown ShownOf(const PlanRow& row);

// "3,512 to 4,051": in milliseconds, where nine of ten measurements are expected; "-": not known.
std::string RangeText(const PlanRow& row);
// The probability that a simulated plan fits, in per cent.
std::string FitText(const planner::Outcome& outcome);
// The extra time for a token compared with another plan, as a fraction of that plan's time.
double Longer(const PlanRow& row, const PlanRow& than);
// Forecasts of plans on one machine are off by so much from one another (docs/accuracy.md,
// "Executions"): a smaller difference does not tell plans apart.
inline constexpr double kTie = 0.02;
inline constexpr const char* kTieText =
    "~: less than 2 % apart, the error between forecasts of plans on one machine\n";
// [low, high] in seconds; empty: not known.
Json RangeJson(const PlanRow& row);
// "-", "+4.3", "+1.2 ~" for a tie: per cent.
std::string LongerText(const PlanRow& row, const PlanRow& than);
// Recipe settings in which two plans differ: "compile, loss, master_weights"; empty if
// there are none.
std::string RecipeDifference(const plan::Plan& a, const plan::Plan& b);

// Why a simulated plan's memory rejects it; empty: it does not.
std::string LackText(const planner::Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome);
// Why a plan is not the best.
std::string WhyText(const planner::Goal& goal, const PlanRow& row);

// Reasons for which plans cannot exist, the most frequent first.
std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons);

// The result of `plan`, as its page shows it. `about`: of the scenario, "model" and its name, and
// so on; `name`: what tells a plan from the others.
SearchView ViewOf(const PlanReport& report, std::vector<std::pair<std::string, std::string>> about,
                  const std::function<std::string(std::int64_t plan)>& name);

// The part of the output of `plan --port` that compares the plan here and there. For the .cc files
// of this package only.

// Empty and null without PlanReport::port.
std::string PortText(const PlanReport& report);
Json PortJson(const PlanReport& report);

}  // namespace stepcast::report
