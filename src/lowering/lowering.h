#pragma once

#include <functional>
#include <vector>

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Turns a scenario into step programs. The code below this room does not know plans, frameworks or
// ZeRO.
namespace stepcast::lowering {

// One program for each distinct rank label of the plan, in the order of labels: the program of the
// label's first rank. The programs of the label's other ranks differ in their process groups and,
// with data flow, in its offsets. The scenario must be legal. `works`: model::BuildWork of the
// scenario, if already computed. `lowered` is called with each program before the next one is
// written, and may remove parts that the caller does not need.
std::vector<program::Program> Lower(const scenario::Scenario& scenario,
                                    const std::vector<model::LayerWork>* works = nullptr,
                                    const std::function<void(program::Program&)>& lowered = {});

// The program of one rank. Each sharding strategy has its own file (reference.cc, lowering.cc for
// DDP, fsdp1.cc, ...).
program::Program LowerRank(const scenario::Scenario& scenario, const LowerOptions& options = {});

// The process groups of rank `rank`, in the order of `program`, which may be the program of any
// rank with the same label. Without data flow, the programs of a label differ only in these groups.
std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank);

}  // namespace stepcast::lowering
