#pragma once

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// Measures on all ranks: those that a launcher started, or threads of this process. Rank 0 writes
// the profile, and has something to say.
Outcome Calibrate(const CalibrateOptions& options);

}  // namespace stepcast::cli
