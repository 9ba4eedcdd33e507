#pragma once

#include <vector>

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Turns a scenario into the step program of a rank: plans, frameworks and ZeRO are spent here.
namespace stepcast::lowering {

// The program of `options.rank`; data parallelism treats all ranks alike, so rank 0's stands for
// all where only times matter. One file per technique writes it (reference.cc, ddp.cc, fsdp1.cc,
// ...). The scenario must be legal, the rank one of its data-parallel ranks.
program::Program Lower(const scenario::Scenario& scenario, const LowerOptions& options = {});

// Whether programs of the plan can say what they do to values (LowerOptions::data_flow), and so be
// executed: not where states are on the host, or what is sent is quantised or of low rank.
bool DescribesValues(const plan::Plan& plan);

// The process groups of the program of `rank`, in the order of `program`, which is that of any
// rank: all that is different between ranks' programs without data flow.
std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank);

}  // namespace stepcast::lowering
