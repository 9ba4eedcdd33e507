#pragma once

#include <span>
#include <vector>

#include "src/program/program.h"
#include "src/program/validator.h"

// Checks that the programs of several ranks match. Every send must have a receive, and every
// collective must have all its members. There must be no cycle of waits among ranks. validator.h
// checks each single program.
namespace stepcast::program {

// The program of one rank, or of the representative of a class of ranks that run the same program.
struct RankProgram {
  int rank = 0;
  const Program* program = nullptr;
  // The rank's process groups, in the order of the program's groups. Null: the program's own
  // groups.
  const std::vector<ProcessGroup>* groups = nullptr;
};

// Checks the programs of `ranks`, which must be all ranks that communicate with each other.
//
// First, the messages of every pair of ranks are compared on every communicator, in the prologue
// and in a step. The messages that one rank sends in host order must equal, in bytes and type,
// those that the other receives. Then, the prologue and two steps are executed without times: hosts
// and streams advance as far as waits, peers and members allow. Programs have no branches, so a
// stall means a stall in every run.
//
// Returns one violation (kMismatch) per unmatched message, and one (kDeadlock) per stream or host
// that waits forever. Empty: the programs match. Each program must be valid by itself.
std::vector<Violation> ValidateTogether(std::span<const RankProgram> ranks);

}  // namespace stepcast::program
