#pragma once

#include <string>
#include <vector>

#include "src/cli/command_page.h"

namespace stepcast::cli {

// A command's page for man(1), section 1, in the macros of man(7): what its page of help says.
// `pages`: of all commands, the program's first.
std::string ManualPage(const CommandPage& page, const std::vector<CommandPage>& pages,
                       const std::string& version);

// "stepcast-calibrate-import" of "calibrate import".
std::string ManualName(const std::string& command);

}  // namespace stepcast::cli
