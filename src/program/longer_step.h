#pragma once

#include <cstdint>

#include "src/program/data_flow.h"

namespace stepcast::program {

// A step that is meant in the place of a program's: it has one period of the program's step, from
// the end of one micro-batch to that of another, so many times more, each time for later
// micro-batches.
struct LongerStep {
  Index begin = 0, end = 0;  // of the period: its first instruction, and the one behind it
  int micro_batches = 1;     // in the period
  std::int64_t more = 0;     // periods
  // The program itself has the period several times in a row. The first of those that were compared
  // with one another begins at this instruction, and the last one at `begin`.
  Index first_begin = 0;

  // How often the longer step has an instruction.
  std::int64_t Times(Index instruction) const {
    return instruction >= begin && instruction < end ? 1 + more : 1;
  }
  friend bool operator==(const LongerStep&, const LongerStep&) = default;
};

}  // namespace stepcast::program
