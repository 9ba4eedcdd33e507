#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/forecast/values.h"
#include "src/planner/plan_space.h"
#include "src/planner/search.h"
#include "src/planner/sensitivity.h"
#include "src/report/answers.h"
#include "src/report/command_text.h"

// The output of `plan`.
namespace stepcast::report {

// The parts of a step's time, from forecast::TimeBreakdown: training phases, exposed communication
// and pipeline bubble. The rest of `step` is host time and the correction learned from measured
// runs.
struct TimeSpent {
  Time step, computing, communicating, bubble;
};

// One plan in a table, with its settings.
struct PlanRow {
  std::int64_t plan = 0;
  std::vector<std::pair<std::string, std::string>> settings;  // overrides of the scenario
  plan::Plan values;
  planner::PlanFacts facts;
  planner::Outcome outcome;  // the result of a simulated plan
  bool simulated = true;
  planner::Verdict verdict = planner::Verdict::kSimulated;
  planner::Bound bound;
  std::optional<TimeSpent> spent;            // set only if requested
  std::optional<forecast::TimeRange> range;  // range that covers 90 % of measurements
  // The number of other plans that tie with this plan (planner::Tied). `no_difference` lists the
  // settings that differ among the tied plans, with all values, this plan's value first. Set only
  // for ranked plans.
  std::int64_t ties = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> no_difference;
};

// The best plan for one framework and one combination of parallel axes.
struct KindRow {
  planner::PlanGroup kind;
  std::int64_t plans = 0;  // number of plans that may be legal
  bool fits = false;       // whether `row` fits; if not, it is the plan nearest to fitting
  PlanRow row;
  double least = 1;  // GroupBest::least
};

// The answer to `--why LAYOUT`: how the layout ranks among all layouts.
struct LayoutAnswer {
  std::string layout;              // layout as the user wrote it
  std::optional<PlanRow> best;     // the best acceptable plan of the layout
  std::optional<PlanRow> nearest;  // if no plan is acceptable: the nearest to being acceptable
  // The numbers of other layouts: with a better plan, without a better plan, and with neither
  // proved.
  std::int64_t better = 0, worse = 0, unknown = 0;
};

// Returns the total tokens per second of the plan's GPUs.
inline double TokensPerSecond(const PlanRow& row) {
  return row.outcome.tokens_per_second_per_gpu * static_cast<double>(row.facts.gpus);
}

// The best plan on `gpus` GPUs. `best` is not set if no plan is acceptable.
struct SizeAnswer {
  std::int64_t gpus = 0;
  std::optional<PlanRow> best;
};

// The plan on one of the two clusters of `plan --port`.
struct PortSide {
  std::string cluster;  // description of the cluster
  forecast::Forecast forecast;
};
struct PortChange {
  std::string key, from, to;  // values as in a scenario; empty: the plan does not have this key
  std::string why;
};
struct PortAnswer {
  PortSide from, ported;
  std::vector<std::string> set;  // "KEY=VALUE": overrides of the scenario for the ported plan
  std::vector<PortChange> changes;
};

// How to execute the best plan.
struct ExecutionAnswer {
  std::string backend;               // "cuda", "host"
  int ranks = 1;                     // number of ranks of the plan
  bool launched = false;             // ranks are on several nodes and need a launcher
  std::vector<std::string> refused;  // reasons why the plan cannot be executed, one sentence each
};

struct PlanReport {
  std::string name;  // name of the scenario
  planner::Goal goal;
  std::int64_t space = 0;
  std::string tried;                   // text about the values that were tried
  std::vector<std::string> not_tried;  // descriptions of values that were not tried
  std::string file;                    // file of the scenario; may be empty
  std::vector<std::string> set;        // "KEY=VALUE", applied to all plans
  std::optional<PortAnswer> port;
  std::optional<ExecutionAnswer> execution;
  std::optional<PlanRow> own;    // the scenario's own plan; not set: it is illegal
  std::optional<PlanRow> risky;  // faster than the best plan, but may not fit
  bool interrupted = false;      // the search was stopped early
  std::vector<KindRow> kinds;    // best first; kinds without an acceptable plan come last
  std::optional<LayoutAnswer> why_layout;
  std::vector<SizeAnswer> by_gpus;  // fewest GPUs first; empty: GPUs do not vary
  const planner::SearchResult* result = nullptr;
  std::vector<PlanRow> best, pareto, nearest;
  std::optional<Fitting> would_fit;  // settings that make the nearest plan fit, if no plan fits
  std::vector<PlanRow> runners_up;   // set with --why
  std::optional<planner::Sensitivity> sensitivity;
  std::optional<PlanRow> with_more_memory;
  std::vector<std::string> notes;          // settings without effect for some frameworks
  std::vector<planner::HeldSetting> held;  // settings of the scenario that are not varied
  double seconds = 0;
};

// Returns the goal as text: "the shortest step" or, if steps have unequal numbers of tokens, "the
// least time per token".
std::string TargetText(const planner::Goal& goal, bool unequal_tokens);
// Returns the number of plans for each verdict ("cannot exist", ...). The numbers add up to the
// size of the space.
std::vector<std::pair<std::string, std::int64_t>> VerdictCounts(const PlanReport& report);

// Returns the settings that are not varied because the scenario sets them, such as
// "parallelism.tensor, training.blocks_per_checkpoint (where activation_checkpointing is full)".
// May be empty.
std::string HeldText(const PlanReport& report);

// Returns the command that executes the best plan and compares it with the forecast. `execution`
// must be set.
CommandWords ExecutionCommand(const PlanReport& report);

// Returns a sentence that compares the best plan with the scenario's own plan: "the best plan is
// 12.3 % faster than yours" or "your plan is the best". `own` must be set.
std::string GainText(const PlanReport& report);

// Returns why a simulated plan is rejected. Empty if the plan is acceptable.
std::string Reason(const planner::Goal& goal, const PlanRow& row);

std::string PlanText(const PlanReport& report);
// Returns one CSV record for each of the best plans, each plan of the Pareto front, and each of the
// plans nearest to fitting. The first field is the name of the list.
std::string PlanCsv(const PlanReport& report);
// A function that returns a plan's name: the settings in which it differs from other plans.
using PlanNames = std::function<std::string(std::int64_t plan)>;
// Returns one HTML page: the best plans, a chart of step time and memory of all simulated plans,
// the verdicts on all other plans, and the best plan's sensitivity. `about` has a label and a text
// for each part of the scenario ("model", ...).
std::string PlanPage(const PlanReport& report,
                     std::vector<std::pair<std::string, std::string>> about, const PlanNames& name);

// Returns the document of `plan --json`, version 1. All keys except the last, `run`, depend only on
// the input.
std::string PlanJson(const PlanReport& report);

}  // namespace stepcast::report
