#pragma once

#include <string_view>

namespace stepcast::cli {

// help.txt: the texts of all help pages.
std::string_view HelpText();

}  // namespace stepcast::cli
