#pragma once

#include <cstddef>
#include <cstdint>

#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Step programs of many micro-batches without writing them out.
namespace stepcast::planner {

// Instructions [first, last) of the step stand for `more` repetitions of themselves, behind
// themselves.
struct Repeated {
  std::size_t first = 0, last = 0;
  std::int64_t more = 0;
};

struct ShortProgram {
  program::Program program;
  Repeated repeated;
};

// What lowering::Lower gives for the scenario, written with fewer micro-batches where those in the
// middle of a step repeat one another: the instructions are the same one after the other, and so
// are their tables, but what they use (Instruction::first_use), labels and micro-batch numbers. The
// middle of the shorter program is looked at; where it does not repeat, and where the step is
// short, the program is lowered as a whole.
ShortProgram LowerShort(const scenario::Scenario& scenario);

}  // namespace stepcast::planner
