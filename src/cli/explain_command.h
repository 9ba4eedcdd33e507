#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ExplainOptions {
  std::string scenario;
  std::vector<std::string> set;
  bool json = false;
  std::optional<double> fit_probability;  // below it the status is kMayNotFit
};

// `stepcast explain`: why the step takes as long as it does. Status 3 if it does not fit in memory.
Outcome Explain(const ExplainOptions& options);

}  // namespace stepcast::cli
