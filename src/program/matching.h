#pragma once

#include <span>
#include <vector>

#include "src/program/program.h"
#include "src/program/validator.h"

// Proves that the programs of several ranks go together: that every send has its receive, every
// collective its members, and that no order in which ranks wait for one another comes round in a
// circle. What a program does by itself is validator.h's to prove.
namespace stepcast::program {

// One rank, or the representative of a class of ranks that run one program.
struct RankProgram {
  int rank = 0;
  const Program* program = nullptr;
  // Its process groups, in the order of its program's; null: the program's own.
  const std::vector<ProcessGroup>* groups = nullptr;
};

// `ranks`: all that communicate with each other. First every pair of ranks on every communicator:
// what the one sends, in host order, the other receives, with the same bytes and type, in the
// prologue and in a step. Where that holds, prologue and two steps are run without times: hosts
// issue as far as they can, streams go on as far as waits, peers and members allow. Programs have
// no choices, so where it stands still it always would. One violation (kMismatch) for each message
// that has no other end like it, one (kDeadlock) for each stream or host that waits for ever;
// empty: they go together. Programs must be sound by themselves.
std::vector<Violation> ValidateTogether(std::span<const RankProgram> ranks);

}  // namespace stepcast::program
