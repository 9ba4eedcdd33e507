#pragma once

#include <vector>

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Turns a scenario into step programs: plans, frameworks and ZeRO are spent here.
namespace stepcast::lowering {

// Ranks that run one program: their programs differ in the ranks of their process groups, and with
// data flow in its offsets.
struct LoweredClass {
  int stage = 0;  // of the pipeline: the ranks whose coordinate it is (plan/rank_grid.h)
  int first_rank = 0;
  int ranks = 0;               // how many
  int in_flight = 1;           // most micro-batches whose activations are held
  program::Program program{};  // of the first of them
};

// The programs of all ranks, by stage. The scenario must be legal. `works`: model::BuildWork of the
// scenario, where it is known already.
std::vector<LoweredClass> Lower(const scenario::Scenario& scenario,
                                const std::vector<model::LayerWork>* works = nullptr);

// The program of one rank. One file per sharding strategy writes it (reference.cc, ddp.cc,
// fsdp1.cc, ...).
program::Program LowerRank(const scenario::Scenario& scenario, const LowerOptions& options = {});

// The process groups of the program of `rank`, in the order of `program`, which is that of any rank
// of its class: all that is different between the programs of a class without data flow.
std::vector<program::ProcessGroup> GroupsOf(const program::Program& program, int rank);

}  // namespace stepcast::lowering
