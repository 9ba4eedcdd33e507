#pragma once

#include <string>
#include <vector>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// Runs a command line. The outcome is that of a command, a help page, or mistakes in the words.
Outcome RunCommandLine(std::vector<std::string> arguments, const HardwareAccess& hardware);

}  // namespace stepcast::cli
