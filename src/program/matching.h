#pragma once

#include <span>
#include <vector>

#include "src/program/program.h"
#include "src/program/validator.h"

// Checks that the programs of several ranks match: every send has its receive, every collective its
// members, and no cycle of waits exists among ranks. validator.h checks each program by itself.
namespace stepcast::program {

// One rank, or the representative of a class of ranks with one program.
struct RankProgram {
  int rank = 0;
  const Program* program = nullptr;
  // Its process groups, in the order of its program's; null: the program's own.
  const std::vector<ProcessGroup>* groups = nullptr;
};

// `ranks`: all that communicate with each other. First, compares the messages of every pair of
// ranks on every communicator, in the prologue and in a step. Those that one sends in host order
// must equal those that the other receives, in bytes and type. Then prologue and two steps are run
// without times: hosts and streams advance as far as waits, peers and members allow. Programs have
// no branches, so a stall means a stall in every run. Returns one violation (kMismatch) per
// unmatched message, and one (kDeadlock) per stream or host that waits forever. Empty: the programs
// match. Each program must be sound by itself.
std::vector<Violation> ValidateTogether(std::span<const RankProgram> ranks);

}  // namespace stepcast::program
