#pragma once

#include <string>
#include <vector>

#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Runs programs of all ranks in threads of the test on the host backend.
namespace stepcast::training {

// Runs some steps with small integers as gradients, and compares the parameters with those of plain
// data parallelism. Returns the mistake or failure; empty if there is none. `programs`: by rank,
// with data flow. They must match (program/matching.h), since nothing ends ranks that wait for each
// other.
std::string WrongAfterTraining(const scenario::Scenario& scenario,
                               const std::vector<program::Program>& programs);

}  // namespace stepcast::training
