#pragma once

#include <string_view>

namespace stepcast::cli {

// help.txt: the texts of all help pages.
std::string_view HelpText();

// The scripts for completion. They call `stepcast complete WORD...`, and offer the words that begin
// with the last word.
std::string_view BashCompletion();
std::string_view FishCompletion();
std::string_view ZshCompletion();

}  // namespace stepcast::cli
