#pragma once

#include <functional>
#include <vector>

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Turns a scenario into step programs: plans, frameworks and ZeRO are spent here.
namespace stepcast::lowering {

// A program for each distinct label of the plan's ranks, in their order: that of the first rank
// that has the label. The other ranks' programs differ from it in the ranks of their process
// groups, and with data flow in its offsets. The scenario must be legal. `works`: model::BuildWork
// of the scenario, where it is known already. `lowered` is called with each program before the next
// one is written; it may remove from the program what the caller does not need.
std::vector<program::Program> Lower(const scenario::Scenario& scenario,
                                    const std::vector<model::LayerWork>* works = nullptr,
                                    const std::function<void(program::Program&)>& lowered = {});

// The program of one rank. One file per sharding strategy writes it (reference.cc, lowering.cc,
// fsdp1.cc, ...).
program::Program LowerRank(const scenario::Scenario& scenario, const LowerOptions& options = {});

// The process groups of the program of `rank`, in the order of `program`, which is that of any rank
// of its label: all that is different between the programs of a label without data flow.
std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank);

}  // namespace stepcast::lowering
