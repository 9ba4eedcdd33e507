#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Step programs of many micro-batches without writing them out.
namespace stepcast::planner {

// Instructions [first, last) of the step stand for `more` repetitions of themselves, behind
// themselves. They are preceded by another repetition. What waits in them for an event that one of
// the two records waits in each repetition for the record that is as far before it; which events
// these are may differ.
struct Repeated {
  std::size_t first = 0, last = 0;
  std::int64_t more = 0;
};

// By instruction of the step: the one that records what it waits for, as far as that is in the same
// step; kNoSource for none, and for whatever does not wait.
inline constexpr std::size_t kNoSource = static_cast<std::size_t>(-1);
std::vector<std::size_t> SourcesOfWaits(const program::Program& program);

struct ShortProgram {
  program::Program program;
  Repeated repeated;
};

// The programs of lowering::Lower for the scenario, written with fewer micro-batches where those in
// the middle of a step repeat one another: the instructions are the same one after the other, and
// so are their tables, but events, what they use (Instruction::first_use), labels and micro-batch
// numbers; what waits waits for the same records. The middle of the shorter program is looked at;
// where it does not repeat, and where the step is short, the program is lowered as a whole.
ShortProgram LowerShort(const scenario::Scenario& scenario);

}  // namespace stepcast::planner
