#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/framework.h"
#include "src/planner/layouts.h"
#include "src/planner/search.h"
#include "src/study/training_question.h"

// The question of a search for plans, as text.
namespace stepcast::study {

// The Pareto front needs a forecast of most plans that need less memory than the best one, and the
// sensitivity some twenty more forecasts. In larger spaces than this they are computed only on
// request.
inline constexpr std::int64_t kMostPlansWithAll = 20'000;

struct PlanQuestion {
  std::string scenario;
  std::vector<std::string> set;   // "KEY=VALUE"
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  std::vector<std::string> fix;   // "KEY"
  std::string only;               // "data,tensor": axes that may exceed 1; empty: all
  std::string framework;          // "all", "NAME,NAME"; empty: those searched by default
  std::string target = "step_time";
  TrainingQuestion training;
  std::string headroom;  // memory that must stay free: "4 GiB", "5%", "0";
                         // empty: the error of memory forecasts
  bool fewer_nodes = false;
  // Whether to find the Pareto front. If neither is set: in spaces of at most kMostPlansWithAll
  // plans.
  bool front = false, no_front = false;
  // Number of plans to rank. 0: five. In a space of more than kMostPlansWithAll plans only the
  // first of them is proved; the others are the best simulated ones.
  int best = 0;
  int why = 0;             // number of runners-up to list
  std::string why_layout;  // "tensor=8,pipeline=16": a layout to be ranked; empty: none
  std::string within;      // "10s": time limit; empty: until the proof is complete
  // Likewise, for the changes that would improve the best plan.
  bool sensitivity = false, no_sensitivity = false;
  bool try_own = true;  // start with the scenario's own plan
  int threads = 0;      // per process; 0: one per usable core
  // Receives the progress of the search, from one thread at a time. May be empty.
  std::function<void(const planner::SearchProgress&)> progress;
};

// Appends mistakes to `faults`, located at "--deadline VALUE" and so on.
planner::Goal ReadGoal(const PlanQuestion& question, Diagnostics& faults);
// An empty `text` means the scenario's own framework.
std::vector<plan::Framework> ReadFrameworks(const std::string& text, Diagnostics& faults);
// "data,tensor"; empty: all.
std::vector<planner::ParallelKind> ReadKinds(const std::string& text, Diagnostics& faults);
// "10s", "2 min"; empty: none.
std::optional<double> ReadWithin(const std::string& text, Diagnostics& faults);
// The layout's settings ("parallelism.tensor", ...) with their values.
std::vector<std::pair<const planner::LayoutKey*, std::string>> ReadLayout(const std::string& text,
                                                                          Diagnostics& faults);

}  // namespace stepcast::study
