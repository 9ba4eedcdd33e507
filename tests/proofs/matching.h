#pragma once

#include <span>
#include <vector>

#include "src/program/program.h"
#include "src/program/validator.h"

// Checks that the programs of several ranks match: every send has a receive, every collective has
// all its members, and there is no cycle of waits among ranks. validator.h checks each single
// program.
namespace stepcast::program {

// The program of one rank, or of the representative of a class of ranks with the same program.
struct RankProgram {
  int rank = 0;
  const Program* program = nullptr;
  // The rank's process groups, in the order of the program's; null: the program's own.
  const std::vector<ProcessGroup>* groups = nullptr;
};

// Checks `ranks`, which must be all ranks that communicate with each other. First compares the
// messages of every pair of ranks on every communicator, in the prologue and in a step. The
// messages that one rank sends in host order must equal, in bytes and type, those that the other
// receives. Then executes prologue and two steps without times: hosts and streams advance as far as
// waits, peers and members allow. Programs have no branches, so a stall means a stall in every run.
// Returns one violation (kMismatch) per unmatched message, and one (kDeadlock) per stream or host
// that waits forever. Empty: the programs match. Each program must be valid by itself.
std::vector<Violation> ValidateTogether(std::span<const RankProgram> ranks);

}  // namespace stepcast::program
