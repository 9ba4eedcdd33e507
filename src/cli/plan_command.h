#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/cli/emit_plan.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

struct PlanOptions {
  std::string scenario;
  std::vector<std::string> set;   // "KEY=VALUE"
  std::vector<std::string> vary;  // "KEY=V1,V2,..."
  std::vector<std::string> fix;   // "KEY"
  std::string framework;          // "all", "NAME,NAME"; empty: the scenario's
  std::string target = "step_time";
  std::string deadline;  // "30 d"; empty: none
  std::string tokens;    // "300e9"; empty: not said
  double price = 0;      // of a GPU hour
  bool fewer_nodes = false;
  bool no_front = false;  // leave out the Pareto front
  int best = 5;
  int why = 0;      // how many near losers to name
  int threads = 0;  // 0: one for each core
  bool json = false;
  bool csv = false;
  std::string report;  // HTML page to write; empty: none
  EmitOptions emit;    // the best plan
  // Told how many plans have bounds and how many were simulated; from several threads, one at a
  // time. May be empty.
  std::function<void(std::int64_t screened, std::int64_t simulated)> progress;
};

// Exits with "the answer is no" when no plan fits and meets the deadline. Wrong input is what no
// plan cures, as with sweep.
Outcome Plan(const PlanOptions& options);

}  // namespace stepcast::cli
