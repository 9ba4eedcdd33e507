#pragma once

#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Turns a scenario into the step program of a rank: plans, frameworks and ZeRO are spent here.
namespace stepcast::lowering {

// The program of rank 0, which stands for all ranks: data parallelism treats them alike. One file
// per technique writes it (reference.cc, ddp.cc, fsdp2.cc). The scenario must be legal.
program::Program Lower(const scenario::Scenario& scenario);

}  // namespace stepcast::lowering
