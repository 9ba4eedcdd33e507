#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/forecast/values.h"
#include "src/report/answer.h"
#include "src/report/page.h"
#include "src/report/plan_report.h"
#include "src/scenario/resolved.h"

namespace stepcast::report {

// A setting that differs between two plans.

struct SettingPair {
  std::string key;   // dotted: "data_parallel.zero_stage"
  std::string a, b;  // values as in a scenario file; empty: the plan lacks the key
};

// Returns the keys whose values differ between the resolved scenarios, in the order of `a`,
// followed by the keys that only `b` has.
std::vector<SettingPair> DifferentSettings(const scenario::Resolved& a,
                                           const scenario::Resolved& b);

// Returns the keys whose values differ between two scenarios. Different paths of files with equal
// content do not count as a difference.
std::vector<SettingPair> DifferentSettings(const scenario::Scenario& a,
                                           const scenario::Scenario& b);

// The collectives of one kind and group in two plans. Null: the plan has no such collectives.
struct CollectivePair {
  const forecast::CollectiveSummary* a = nullptr;
  const forecast::CollectiveSummary* b = nullptr;
  const forecast::CollectiveSummary& any() const { return a != nullptr ? *a : *b; }
};

// Returns pairs for the collectives of `a`, in order, followed by the collectives that only `b`
// has.
std::vector<CollectivePair> PairCollectives(const forecast::Forecast& a,
                                            const forecast::Forecast& b);

// Parts of the output of `plan`: the best plan of each kind, and the answer to --why LAYOUT.
// Internal to this package.

// Returns the most important settings of a plan: "megatron, tensor 2, data 4, ZeRO 1, mbs 2,
// recompute full".
std::string PlanInShort(const PlanRow& row);

std::string KindsText(const PlanReport& report);
Json KindsJson(const PlanReport& report);
// Returns a section with the step time of the best plan of each kind as a bar. The scenario's own
// plan is marked.
PageSection KindsSection(const PlanReport& report);
std::string LayoutAnswerText(const PlanReport& report);
Json LayoutAnswerJson(const PlanReport& report);

// Parts of a table row, for the text and the JSON document of `plan`. Internal to this package.

// Returns the memory that a plan lacks: its memory plus the headroom, minus the device's memory.
// All statements about missing memory use this value.
Bytes Lacks(const planner::Goal& goal, const planner::PlanFacts& facts, Bytes over);

Bytes Needed(const planner::Outcome& outcome);

// The plan values that every table shows.
struct Shown {
  Time step_time;
  Bytes peak, needed;
};
Shown ShownOf(const PlanRow& row);

// Returns the range that covers 90 % of measurements, such as "3.51 s to 4.05 s", or "-" if it is
// unknown.
std::string RangeText(const PlanRow& row);
// Returns the probability, in per cent, that a simulated plan fits.
std::string FitText(const planner::Outcome& outcome);
// Returns the additional time per token of a plan compared with `than`, as a fraction of the time
// per token of `than`.
double Longer(const PlanRow& row, const PlanRow& than);
// The largest relative time difference that the report marks as a tie: the forecast error between
// plans on one machine (docs/accuracy.md, "Executions").
inline constexpr double kTie = 0.02;
// Returns the range as [low, high] in seconds. Empty if the range is unknown.
Json RangeJson(const PlanRow& row);
// Returns the additional time of `row` compared with `than`, in per cent: "-" for the same plan,
// "+4.3", or "+1.2 ~" for a tie.
std::string LongerText(const PlanRow& row, const PlanRow& than);
// Returns the settings of the training recipe in which two plans differ, such as "compile, loss,
// master_weights". May be empty.
std::string RecipeDifference(const plan::Plan& a, const plan::Plan& b);

// Returns why a simulated plan is rejected because of its memory. Empty if the plan's memory is
// acceptable.
std::string LackText(const planner::Goal& goal, const planner::PlanFacts& facts,
                     const planner::Outcome& outcome);
// Returns why a plan is not the best.
std::string WhyText(const planner::Goal& goal, const PlanRow& row);

// Returns the reasons why plans are illegal, each with its number of plans, most frequent first.
std::vector<std::pair<std::string, std::int64_t>> Sorted(
    const std::map<std::string, std::int64_t>& reasons);

// The part of the output of `plan --port` that compares the plan on the two clusters. Internal to
// this package.

// If PlanReport::port is not set, the text is empty and the document is null.
std::string PortText(const PlanReport& report);
Json PortJson(const PlanReport& report);

}  // namespace stepcast::report
