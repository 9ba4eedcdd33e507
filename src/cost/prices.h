#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::cost {

struct CollectivePrice {
  Demand demand;
  const char* algorithm = "ring";  // "ring", "tree", "table", "none" (one rank)
  // Bytes that a rank sends on the wire, mean over the group; what the textbook algorithm sends.
  double wire_bytes_per_rank = 0;
  // No implementation can be faster: wire bytes over what a rank can send. Checked.
  Time bandwidth_bound;
};

// The price of everything in a program, one entry per entry of the program's tables, and the host
// time to issue each kind of instruction.
struct Prices {
  std::vector<Demand> kernels;
  std::vector<CollectivePrice> collectives;
  std::vector<Demand> copies;
  Time issue_kernel;
  Time issue_copy;
  Time issue_collective;
};

// Prices a program on the scenario's cluster with its calibration. Errors: a collective that has
// neither a table nor a link; a kernel that needs a GPU where there is none.
Result<Prices> Price(const program::Program& program, const scenario::Scenario& scenario);

}  // namespace stepcast::cost
