#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/runtime/executor.h"
#include "src/runtime/job.h"
#include "src/validate/execution.h"

// The results of an execution that each rank sends to rank 0, as bytes.
namespace stepcast::cli {

struct RankYield {
  validate::RankRun run;  // without the program
  std::string weights;    // result of validate::ReadWeights; empty if weights are not checked
};

// The sizes of a rank's results, which rank 0 knows in advance.
struct ExpectedYield {
  int rank = 0;
  int ranks = 1;
  std::size_t instructions = 0;  // number of instructions in a step of the rank's program
  std::size_t steps = 0;         // number of measured steps
};

std::string ToBytes(const runtime::Place& place, const runtime::Measurement& measurement,
                    std::string_view weights);

// Parses the results of a rank. Checks all numbers before they are used as indices, and makes text
// printable. Fails with a message that contains the rank if the bytes are not results of the
// expected size.
runtime::Attempt<RankYield> ToYield(std::string_view bytes, const ExpectedYield& expected);

}  // namespace stepcast::cli
