#pragma once

#include <string>

#include "src/cli/outcome.h"

namespace stepcast::cli {

struct ValidatePublishedOptions {
  std::string source;  // one source alone; empty: all
  bool json = false;
  bool csv = false;
  std::string html;    // a page to write; empty: none
  std::string update;  // a document whose section is written anew; empty: none
};

// Published training steps against forecasts. The answer is no when check rows miss what is aimed
// at (validate/published.h).
Outcome ValidatePublished(const ValidatePublishedOptions& options);

}  // namespace stepcast::cli
