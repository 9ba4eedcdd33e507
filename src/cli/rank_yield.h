#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/runtime/executor.h"
#include "src/runtime/job.h"
#include "src/validate/execution.h"

// What a rank of an execution brings back to rank 0, as bytes.
namespace stepcast::cli {

struct RankYield {
  validate::RankRun run;  // but for its program
  std::string weights;    // validate::ReadWeights, if they are to be checked
};

// What rank 0 knows of a rank before it hears of it.
struct ExpectedYield {
  int rank = 0;
  int ranks = 1;
  std::size_t instructions = 0;  // of a step of its program
  std::size_t steps = 0;         // that are measured
};

std::string ToBytes(const runtime::Place& place, const runtime::Measurement& measurement,
                    std::string_view weights);

// Everything in it is checked before it is used for indices, and text can be printed. Fails, naming
// the rank, when it is not what a rank with that program measures.
runtime::Attempt<RankYield> ToYield(std::string_view bytes, const ExpectedYield& expected);

}  // namespace stepcast::cli
