#pragma once

#include <string>
#include <vector>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// Runs a command line. Returns the command's outcome, a help page, or the mistakes in the command
// line.
Outcome RunCommandLine(std::vector<std::string> arguments, const HardwareAccess& hardware);

}  // namespace stepcast::cli
