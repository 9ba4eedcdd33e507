#pragma once

#include <string>
#include <vector>

#include "src/cli/hardware_request.h"
#include "src/cli/outcome.h"

namespace stepcast::cli {

// What the words of a command line ask for, done: a command's outcome, a page of help, or what is
// wrong with them.
Outcome RunCommandLine(std::vector<std::string> arguments, const HardwareAccess& hardware);

}  // namespace stepcast::cli
