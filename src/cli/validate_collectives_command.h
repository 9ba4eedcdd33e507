#pragma once

#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ValidateCollectivesOptions {
  bool json = false;
  bool csv = false;
  std::string update;  // a document whose section is written anew; empty: none
};

// Published measurements of collectives against forecasts. The answer is no when held-back points
// miss what is aimed at (validate/collectives.h).
Outcome ValidateCollectives(const ValidateCollectivesOptions& options);

}  // namespace stepcast::cli
