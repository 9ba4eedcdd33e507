#pragma once

#include <string>
#include <vector>

#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Programs of all ranks, run by threads of the test on the host backend.
namespace stepcast::training {

// Runs some steps, small integers as gradients, and holds the parameters against those of plain
// data parallelism: what is wrong, or what failed; empty: nothing. `programs`: by rank, with data
// flow; they must go together (program/matching.h), for nothing ends ranks that wait for each
// other.
std::string WrongAfterTraining(const scenario::Scenario& scenario,
                               const std::vector<program::Program>& programs);

}  // namespace stepcast::training
