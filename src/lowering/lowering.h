#pragma once

#include <functional>
#include <vector>

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Converts a scenario to step programs. Packages that read programs need not know plans, frameworks
// or ZeRO.
namespace stepcast::lowering {

// Returns one program per rank label of the plan, in label order: the program of the label's first
// rank. Programs of other ranks with this label differ only in process groups and data-flow
// offsets. The scenario must be legal. `works` is the result of model::BuildWork, or null.
// `lowered` is called after each program is written, and may remove parts that the caller does not
// need.
std::vector<program::Program> Lower(const scenario::Scenario& scenario,
                                    const std::vector<model::LayerWork>* works = nullptr,
                                    const std::function<void(program::Program&)>& lowered = {});

// Returns the program of one rank. Each sharding strategy is in a separate file (reference.cc,
// ddp.cc, fsdp1.cc, ...).
program::Program LowerRank(const scenario::Scenario& scenario, const LowerOptions& options = {});

// Returns the process groups of rank `rank`, in the order of the groups of `program`. `program` may
// belong to any rank with the same label.
std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank);

}  // namespace stepcast::lowering
