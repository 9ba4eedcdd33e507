#pragma once

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

Outcome Execute(const ExecuteOptions& options);

}  // namespace stepcast::cli
