#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/emit_plan.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

struct PlanOptions {
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
  int why = 0;        // how many runners-up to name
  int threads = 0;    // of each process; 0: one for each core that it may use
  std::string store;  // a file that keeps bounds and forecasts from run to run; empty: none
  bool json = false;
  bool csv = false;
  std::string report;  // HTML page to write; empty: none
  EmitOptions emit;    // the best plan
  // Told how many plans have bounds and how many were simulated; from several threads, one at a
  // time. May be empty.
  std::function<void(std::int64_t screened, std::int64_t simulated)> progress;
};

// Exits with "the answer is no" when no plan fits and meets the deadline. Wrong input is what no
// plan cures, as with sweep. Under mpirun all ranks work, and rank 0 decides, keeps the store and
// has the output (spread.h).
Outcome Plan(const PlanOptions& options);

}  // namespace stepcast::cli
