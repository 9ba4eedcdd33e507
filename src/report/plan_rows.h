#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/report/json.h"
#include "src/report/plan_report.h"
#include "src/scenario/resolved.h"

namespace stepcast::report {

// The settings in which two plans differ, in report order.

struct SettingPair {
  std::string key;   // dotted: "data_parallel.zero_stage"
  std::string a, b;  // as in a scenario file; "" if the plan has no such key
};

// The keys of the resolved scenarios whose values differ, those of `a` first.
std::vector<SettingPair> DifferentSettings(const scenario::Resolved& a,
                                           const scenario::Resolved& b);

// The same without files that have the same content under another path.
std::vector<SettingPair> DifferentSettings(const scenario::Scenario& a,
                                           const scenario::Scenario& b);

// The collectives of one kind and group; null if a plan has none.
struct CollectivePair {
  const forecast::CollectiveSummary* a = nullptr;
  const forecast::CollectiveSummary* b = nullptr;
  const forecast::CollectiveSummary& any() const { return a != nullptr ? *a : *b; }
};

// The collectives of `a` in order, then those only in `b`.
std::vector<CollectivePair> PairCollectives(const forecast::Forecast& a,
                                            const forecast::Forecast& b);

// The part of `plan`'s output by kind, and for a named layout. Internal to this package.

// How the plan's ranks divide model and sequences: "tensor 8, pipeline 7 x 15". "data 16" if they
// divide only the batch.
std::string LayoutText(const plan::Plan& plan);
// Why one plan is slower than another: "2,100.000 ms more waiting in the pipeline"; empty if
// unknown.
std::string WhyLonger(const PlanRow& plan, const PlanRow& than);

// The most important settings of a plan: "megatron, tensor 2, data 4, ZeRO 1, mbs 2, recompute
// full".
std::string PlanInShort(const PlanRow& row);

std::string KindsText(const PlanReport& report);
Json KindsJson(const PlanReport& report);
std::string LayoutAnswerText(const PlanReport& report);
Json LayoutAnswerJson(const PlanReport& report);

// The parts of a row that text and document of `plan` share. Internal to this package.

// The missing memory: the plan's need plus the headroom, minus the device's memory. Every reported
// lack of memory is this value.
Bytes Lacks(const planner::Goal& goal, const planner::PlanFacts& facts, Bytes over);

Bytes Needed(const planner::Outcome& outcome);

// The figures of a plan that every table shows.
struct Shown {
  Time step_time;
  Bytes peak, needed;
};
Shown ShownOf(const PlanRow& row);

// "3.51 s to 4.05 s": the range of 90 % of measurements; "-" if unknown.
std::string RangeText(const PlanRow& row);
// The fit probability of a simulated plan, in per cent.
std::string FitText(const planner::Outcome& outcome);
// The extra time per token compared with another plan, as a fraction of that plan's time.
double Longer(const PlanRow& row, const PlanRow& than);
// Smaller relative differences do not distinguish plans: forecasts of plans on one machine deviate
// this much from one another (docs/accuracy.md, "Executions").
inline constexpr double kTie = 0.02;
inline constexpr const char* kTieText =
    "~: within 2 %, the forecast error between plans on one machine\n";
// [low, high] in seconds; empty if unknown.
Json RangeJson(const PlanRow& row);
// Per cent: "-", "+4.3", or "+1.2 ~" for a tie.
std::string LongerText(const PlanRow& row, const PlanRow& than);
// The recipe settings in which two plans differ: "compile, loss, master_weights"; may be empty.
std::string RecipeDifference(const plan::Plan& a, const plan::Plan& b);

// Why a simulated plan's memory rejects it; empty if it does not.
std::string LackText(const planner::Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome);
// Why a plan is not the best.
std::string WhyText(const planner::Goal& goal, const PlanRow& row);

// Why plans cannot exist, the most frequent reason first.
std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons);

// The part of the output of `plan --port` that compares the plan on the two clusters. Internal to
// this package.

// Empty or null without PlanReport::port.
std::string PortText(const PlanReport& report);
Json PortJson(const PlanReport& report);

}  // namespace stepcast::report
