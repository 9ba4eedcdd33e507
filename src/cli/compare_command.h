#pragma once

#include <string>

#include "src/cli/outcome.h"
#include "src/study/comparison.h"

namespace stepcast::cli {

struct CompareOptions : study::ComparisonQuestion {
  std::string memory;  // what PyTorch says of a job's memory, in the place of B; empty: B
  bool json = false;
};

// Two plans; or the memory of one beside what was measured.
Outcome Compare(const CompareOptions& options);

}  // namespace stepcast::cli
