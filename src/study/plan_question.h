#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/framework.h"
#include "src/planner/search.h"

// What a search of plans is asked for, as text.
namespace stepcast::study {

struct PlanQuestion {
  std::string scenario;
  std::vector<std::string> set;   // "KEY=VALUE"
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  std::vector<std::string> fix;   // "KEY"
  std::string framework;          // "all", "NAME,NAME"; empty: the scenario's
  std::string target = "step_time";
  std::string deadline;         // "30 d"; empty: none
  std::string tokens;           // "300e9"; empty: not said
  std::optional<double> price;  // of a GPU hour
  std::string headroom;         // memory that must stay free: "4 GiB", "5%", "0";
                                // empty: the stated error of memory
  bool fewer_nodes = false;
  bool no_front = false;  // leave out the Pareto front
  int best = 5;
  int why = 0;      // how many near losers to name
  int threads = 0;  // of each process; 0: one for each core that it may use
  // Told how many plans have bounds and how many were simulated; from several threads, one at a
  // time. May be empty.
  std::function<void(std::int64_t screened, std::int64_t simulated)> progress;
};

// What is wrong goes to `faults`, located at "--deadline VALUE" and so on.
planner::Goal ReadGoal(const PlanQuestion& question, Diagnostics& faults);
// Empty: the scenario's own.
std::vector<plan::Framework> ReadFrameworks(const std::string& text, Diagnostics& faults);
Diagnostic WrongOption(const char* option, const std::string& value, std::string message,
                       std::string hint);

}  // namespace stepcast::study
