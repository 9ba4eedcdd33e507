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

// A setting in which two plans differ.

struct SettingPair {
  std::string key;   // dotted: "data_parallel.zero_stage"
  std::string a, b;  // as in a scenario file; "" if the plan has no such key
};

// Returns the keys whose values differ between the resolved scenarios, in the order of `a`,
// followed by keys that only `b` has.
std::vector<SettingPair> DifferentSettings(const scenario::Resolved& a,
                                           const scenario::Resolved& b);

// Does the same, but ignores files that have the same content under another path.
std::vector<SettingPair> DifferentSettings(const scenario::Scenario& a,
                                           const scenario::Scenario& b);

// The collectives of one kind and group in two plans. A pointer is null if that plan has none.
struct CollectivePair {
  const forecast::CollectiveSummary* a = nullptr;
  const forecast::CollectiveSummary* b = nullptr;
  const forecast::CollectiveSummary& any() const { return a != nullptr ? *a : *b; }
};

// Returns the collectives of `a` in order, followed by those that only `b` has.
std::vector<CollectivePair> PairCollectives(const forecast::Forecast& a,
                                            const forecast::Forecast& b);

// The parts of `plan`'s output that list plans by kind and describe a named layout. Internal to
// this package.

// Returns how the plan's ranks divide the model and the sequences: "tensor 8, pipeline 7 x 15". If
// they divide only the batch, the text is "data 16".
std::string LayoutText(const plan::Plan& plan);
// Returns why `plan` is slower than `than`: "2,100.000 ms more waiting in the pipeline". The text
// is empty if the reason is unknown.
std::string WhyLonger(const PlanRow& plan, const PlanRow& than);

// Returns the most important settings of a plan: "megatron, tensor 2, data 4, ZeRO 1, mbs 2,
// recompute full".
std::string PlanInShort(const PlanRow& row);

std::string KindsText(const PlanReport& report);
Json KindsJson(const PlanReport& report);
std::string LayoutAnswerText(const PlanReport& report);
Json LayoutAnswerJson(const PlanReport& report);

// The parts of a row that the text and the document of `plan` share. Internal to this package.

// Returns the missing memory: the plan's need plus the headroom, minus the device's memory.
// Wherever the report states missing memory, it uses this value.
Bytes Lacks(const planner::Goal& goal, const planner::PlanFacts& facts, Bytes over);

Bytes Needed(const planner::Outcome& outcome);

// The figures of a plan that every table shows.
struct Shown {
  Time step_time;
  Bytes peak, needed;
};
Shown ShownOf(const PlanRow& row);

// Returns the range that covers 90 % of measurements: "3.51 s to 4.05 s", or "-" if the range is
// unknown.
std::string RangeText(const PlanRow& row);
// Returns the probability in per cent that a simulated plan fits.
std::string FitText(const planner::Outcome& outcome);
// Returns the extra time per token compared with `than`, as a fraction of that plan's time.
double Longer(const PlanRow& row, const PlanRow& than);
// Plans whose times differ by a smaller fraction count as tied: forecast errors of plans on one
// machine differ this much (docs/accuracy.md, "Executions").
inline constexpr double kTie = 0.02;
inline constexpr const char* kTieText =
    "~: within 2 %, the forecast error between plans on one machine\n";
// Returns [low, high] in seconds; empty if the range is unknown.
Json RangeJson(const PlanRow& row);
// Returns the extra time in per cent: "-" for the same plan, "+4.3", or "+1.2 ~" for a tie.
std::string LongerText(const PlanRow& row, const PlanRow& than);
// Returns the recipe settings in which two plans differ: "compile, loss, master_weights". May be
// empty.
std::string RecipeDifference(const plan::Plan& a, const plan::Plan& b);

// Returns why a simulated plan is rejected for its memory. The text is empty if its memory is
// acceptable.
std::string LackText(const planner::Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome);
// Returns why a plan is not the best.
std::string WhyText(const planner::Goal& goal, const PlanRow& row);

// Returns the reasons why plans cannot exist, the most frequent first, each with its number of
// plans.
std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons);

// The part of the output of `plan --port` that compares the plan on the two clusters. Internal to
// this package.

// The text is empty, and the document is null, if PlanReport::port is not set.
std::string PortText(const PlanReport& report);
Json PortJson(const PlanReport& report);

}  // namespace stepcast::report
