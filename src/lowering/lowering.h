#pragma once

#include <functional>
#include <vector>

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Turns a scenario into step programs. The packages below this one do not know plans, frameworks or
// ZeRO.
namespace stepcast::lowering {

// Returns one program for each distinct rank label of the plan, in the order of labels: the program
// of the label's first rank. Programs of other ranks with that label differ only in process groups
// and, with a data flow, in its offsets. The scenario must be legal. `works` is the result of
// model::BuildWork for the scenario, if already computed. `lowered` is called with each program
// before the next one is written, and may remove parts that the caller does not need.
std::vector<program::Program> Lower(const scenario::Scenario& scenario,
                                    const std::vector<model::LayerWork>* works = nullptr,
                                    const std::function<void(program::Program&)>& lowered = {});

// Returns the program of one rank. Each sharding strategy has its own file (reference.cc,
// lowering.cc for DDP, fsdp1.cc, ...).
program::Program LowerRank(const scenario::Scenario& scenario, const LowerOptions& options = {});

// Returns the process groups of rank `rank`, in the order of the groups of `program`. `program` may
// belong to any rank with the same label. Without a data flow, the programs of one label differ
// only in these groups.
std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank);

}  // namespace stepcast::lowering
