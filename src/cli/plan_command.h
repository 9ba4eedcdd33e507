#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/cli/emit_plan.h"
#include "src/cli/outcome.h"
#include "src/cli/work_command.h"
#include "src/study/plan_question.h"

namespace stepcast::cli {

struct PlanOptions : study::PlanQuestion {
  std::string why_not;  // of `why` or `why_layout`, whichever it is
  bool port = false;    // carries the scenario's plan over to the topology `to`
  std::string to;
  std::optional<std::int64_t> to_nodes;  // how many nodes it has there
  std::string store;  // a file that keeps bounds and forecasts from run to run; empty: none
  bool json = false;
  bool csv = false;
  std::string report;                     // HTML page to write; empty: none
  EmitOptions emit;                       // the best plan
  std::optional<double> fit_probability;  // the best plan's; below it the status is kMayNotFit
};

// Exits with "the answer is no" when no plan fits and meets the deadline. Wrong input is what no
// plan cures, as with sweep. Under mpirun all ranks work, and rank 0 decides, keeps the store and
// has the output (distributed_command.h).
Outcome Plan(const PlanOptions& options, const RunWork& run_work);

}  // namespace stepcast::cli
