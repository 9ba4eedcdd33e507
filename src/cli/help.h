#pragma once

#include <string_view>

namespace stepcast::cli {

// Returns the contents of help.txt and words.txt: the texts of all help pages, and wrong words with
// the words that hints suggest instead.
std::string_view HelpText();

// Return the completion scripts of the shells. Each script calls `stepcast complete WORD...` and
// offers the results that begin with the last word.
std::string_view BashCompletion();
std::string_view FishCompletion();
std::string_view ZshCompletion();

}  // namespace stepcast::cli
