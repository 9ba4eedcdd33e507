#pragma once

#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct CompareOptions {
  std::string a, b;                       // scenarios or plans; b empty: the same as a
  std::vector<std::string> set;           // of both
  std::vector<std::string> set_a, set_b;  // of one
  bool json = false;
};

// The answer is no when one of the two does not fit.
Outcome Compare(const CompareOptions& options);

}  // namespace stepcast::cli
