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

// What a search of plans is asked for, as text.
namespace stepcast::study {

// The front takes a look at most plans that need less memory than the best one, and the sensitivity
// some twenty forecasts more. In larger spaces they are found only if they are asked for.
inline constexpr std::int64_t kMostPlansWithAll = 20'000;

struct PlanQuestion {
  std::string scenario;
  std::vector<std::string> set;   // "KEY=VALUE"
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  std::vector<std::string> fix;   // "KEY"
  std::string only;               // "data,tensor": what is divided; empty: everything
  std::string framework;          // "all", "NAME,NAME"; empty: all that searches try
  std::string target = "step_time";
  TrainingQuestion training;
  std::string headroom;  // memory that must stay free: "4 GiB", "5%", "0";
                         // empty: the stated error of memory
  bool fewer_nodes = false;
  // Whether to find the Pareto front. Neither is said: of spaces of at most kMostPlansWithAll.
  bool front = false, no_front = false;
  // How many plans to rank. 0: five, of which in a space of more than kMostPlansWithAll the first
  // alone is proved, and the others are the best of what was simulated.
  int best = 0;
  int why = 0;             // how many runners-up to name
  std::string why_layout;  // "tensor=8,pipeline=16": whose place to say; empty: none
  std::string within;      // "10s": how long the search may take; empty: until all is proved
  // Likewise what would change the best plan.
  bool sensitivity = false, no_sensitivity = false;
  bool try_own = true;  // begin with the scenario's own plan
  int threads = 0;      // of each process; 0: one for each core that it may use
  // Told how far the search has come; never from two threads at once. May be empty.
  std::function<void(const planner::SearchProgress&)> progress;
};

// What is wrong goes to `faults`, located at "--deadline VALUE" and so on.
planner::Goal ReadGoal(const PlanQuestion& question, Diagnostics& faults);
// Empty: the scenario's own.
std::vector<plan::Framework> ReadFrameworks(const std::string& text, Diagnostics& faults);
// "data,tensor"; empty: all.
std::vector<planner::ParallelKind> ReadKinds(const std::string& text, Diagnostics& faults);
// "10s", "2 min"; empty: none.
std::optional<double> ReadWithin(const std::string& text, Diagnostics& faults);
// The layout's settings, "parallelism.tensor" and so on, with their values.
std::vector<std::pair<const planner::LayoutKey*, std::string>> ReadLayout(const std::string& text,
                                                                          Diagnostics& faults);

}  // namespace stepcast::study
