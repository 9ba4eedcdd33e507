#pragma once

#include <optional>
#include <string>

#include "src/cli/outcome.h"
#include "src/scenario/scenario.h"

namespace stepcast::cli {

// What --emit and --force ask for.
struct EmitOptions {
  std::string folder;  // empty: nothing is written
  bool force = false;  // replace the plan that the folder holds
};

// Before the work, so that a folder that cannot be is noticed at once. An outcome is a failure.
std::optional<Outcome> CheckEmit(const EmitOptions& options);

// Writes the plan of the scenario, which was loaded from the file `source`, if that is asked for.
// An outcome is a failure; otherwise what was written is added to `messages`.
std::optional<Outcome> EmitPlan(const scenario::Scenario& scenario, const std::string& source,
                                const EmitOptions& options, std::string& messages);

}  // namespace stepcast::cli
