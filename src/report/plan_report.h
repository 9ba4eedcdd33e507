#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/forecast/values.h"
#include "src/planner/plan_space.h"
#include "src/planner/search.h"
#include "src/planner/sensitivity.h"
#include "src/report/command_text.h"
#include "src/scenario/scenario.h"

// The output of `plan`.
namespace stepcast::report {

// Where a step's time goes, as forecast::TimeBreakdown has it: to the phases of the training, to
// communication that nothing hides, to waiting for other stages of a pipeline. What is left is the
// host's, and the correction by measured runs.
struct TimeSpent {
  Time step, computing, communicating, bubble;
};

// A plan in a table, with its settings.
struct PlanRow {
  std::int64_t plan = 0;
  std::vector<std::pair<std::string, std::string>> settings;  // overrides of the scenario
  plan::Plan values;
  planner::PlanFacts facts;
  planner::Outcome outcome;  // of a simulated plan
  bool simulated = true;
  planner::Verdict verdict = planner::Verdict::kSimulated;
  planner::Bound bound;
  std::optional<TimeSpent> spent;           // where that was asked for
  std::optional<forecast::TimeRange> range;  // that nine of ten measurements are expected in
  // Of a ranked plan: how many others tie with it (planner::Tied), and the settings that differ,
  // with all values that make no difference, its own first.
  std::int64_t ties = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> no_difference;
};

// The best plan of a framework that divides the same beside the batch.
struct KindRow {
  planner::PlanGroup kind;
  std::int64_t plans = 0;  // that may exist
  bool fits = false;       // `row` is its best plan, simulated; else the one that lacks least
  PlanRow row;
  double least = 1;  // GroupBest::least
};

// Where a named layout stands (`--why LAYOUT`).
struct LayoutAnswer {
  std::string layout;              // as it was asked for
  std::optional<PlanRow> best;     // of its plans that will do
  std::optional<PlanRow> nearest;  // without one
  // Of the other layouts: those of which a plan is better, those of which none is, and those of
  // which nothing is proved.
  std::int64_t better = 0, worse = 0, unknown = 0;
};

// How many tokens all GPUs of the plan train on in a second.
inline double TokensPerSecond(const PlanRow& row) {
  return row.outcome.tokens_per_second_per_gpu * static_cast<double>(row.facts.gpus);
}

// The best plan on so many GPUs; none where no plan on them will do.
struct SizeAnswer {
  std::int64_t gpus = 0;
  std::optional<PlanRow> best;
};

// A plan that was carried over to another cluster (`--port`), there and here.
struct PortSide {
  std::string cluster;  // in words
  forecast::Forecast forecast;
};
struct PortChange {
  std::string key, from, to;  // values as in a scenario; empty: the plan has none
  std::string why;
};
struct PortAnswer {
  PortSide from, ported;
  std::vector<std::string> set;  // "KEY=VALUE": what makes the ported plan of the scenario
  std::vector<PortChange> changes;
};

// How the best plan is executed.
struct ExecutionAnswer {
  std::string backend;               // "cuda", "host"
  int ranks = 1;                     // of the plan
  bool launched = false;             // its ranks are on several nodes, and need a launcher
  std::vector<std::string> refused;  // why it is not: a sentence each; empty: it is
};

struct PlanReport {
  std::string name;  // the scenario's
  planner::Goal goal;
  std::int64_t space = 0;
  std::string tried;                   // in words
  std::vector<std::string> not_tried;  // likewise
  std::string file;                    // the scenario's; empty: it stands in none
  std::vector<std::string> set;        // "KEY=VALUE", of all plans
  std::optional<PortAnswer> port;
  std::optional<ExecutionAnswer> execution;
  std::optional<PlanRow> own;    // the scenario's own plan; none: it cannot exist
  std::optional<PlanRow> risky;  // faster than the best plan, and may not fit
  bool interrupted = false;      // somebody asked the search to stop
  std::vector<KindRow> kinds;  // the best first; those without a plan that will do come last
  std::optional<LayoutAnswer> why_layout;
  std::vector<SizeAnswer> by_gpus;  // the fewest first; empty where all plans have as many
  const planner::SearchResult* result = nullptr;
  std::vector<PlanRow> best, pareto, nearest;
  std::vector<PlanRow> runners_up;  // with --why
  std::optional<planner::Sensitivity> sensitivity;
  std::optional<PlanRow> with_more_memory;
  std::vector<std::string> notes;          // settings without effect for some frameworks
  std::vector<planner::HeldSetting> held;  // what the scenario gives and was not searched
  double seconds = 0;
};

// "the shortest step"; "the least time for a token" where steps have unequal tokens
std::string TargetText(const planner::Goal& goal, bool unequal_tokens);
// How many plans have each verdict, "cannot exist" and so on; together all of them.
std::vector<std::pair<std::string, std::int64_t>> VerdictCounts(const PlanReport& report);

// The settings that the scenario gives and that were not searched: "parallelism.tensor,
// training.blocks_per_checkpoint (where activation_checkpointing is full)"; empty: there are none.
std::string HeldText(const PlanReport& report);

// The command that executes the best plan and holds the forecast against it. Requires `execution`.
CommandWords ExecutionCommand(const PlanReport& report);

// "the best is 12.3 % faster than yours"; "it is the best". Requires `own`.
std::string GainText(const PlanReport& report);

// Why a simulated plan is no answer; empty where it is one.
std::string Reason(const planner::Goal& goal, const PlanRow& row);

std::string PlanText(const PlanReport& report);
// The best, the front and the nearest to fitting, one record each, first field which list.
std::string PlanCsv(const PlanReport& report);
// The document of `plan --json`, version 1. Everything but its last key, `run`, depends on the
// input alone.
std::string PlanJson(const PlanReport& report);

}  // namespace stepcast::report
