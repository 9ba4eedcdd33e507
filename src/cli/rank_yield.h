#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/runtime/executor.h"
#include "src/runtime/job.h"
#include "src/validate/execution.h"

// The results of an execution that a rank sends to rank 0, as bytes.
namespace stepcast::cli {

struct RankYield {
  validate::RankRun run;  // without its program
  std::string weights;    // validate::ReadWeights, if weights are to be checked
};

// The sizes of a rank's results. Rank 0 knows them in advance.
struct ExpectedYield {
  int rank = 0;
  int ranks = 1;
  std::size_t instructions = 0;  // in a step of its program
  std::size_t steps = 0;         // measured steps
};

std::string ToBytes(const runtime::Place& place, const runtime::Measurement& measurement,
                    std::string_view weights);

// Reads the results of a rank. Checks all numbers before they are used as indices, and makes text
// printable. If the bytes are not a measurement of a rank with that program, fails with a message
// that names the rank.
runtime::Attempt<RankYield> ToYield(std::string_view bytes, const ExpectedYield& expected);

}  // namespace stepcast::cli
