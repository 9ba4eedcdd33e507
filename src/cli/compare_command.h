#pragma once

#include "src/cli/outcome.h"
#include "src/study/comparison.h"

namespace stepcast::cli {

struct CompareOptions : study::ComparisonQuestion {
  bool json = false;
};

// The answer is no when one of the two does not fit.
Outcome Compare(const CompareOptions& options);

}  // namespace stepcast::cli
