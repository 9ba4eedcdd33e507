#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/cli/command_page.h"

// Shell completion. The shell script calls the program, so that completions match its version.
namespace stepcast::cli {

inline constexpr const char* kComplete = "complete";

// The shells with a completion script.
const std::vector<std::string>& CompletionShells();
// A shell's completion script.
std::string CompletionScript(const std::string& shell);

// Completions of the last of `words`, which follow the program's name. Each line has a word and,
// after a tab, its meaning. A line with only kFilesToo adds file names.
inline constexpr const char* kFilesToo = ":files";
// `names`: completions of values by type, in addition to files: the shipped models for "MODEL". A
// name that ends in an equals sign is only the start of a value, "training.precision=".
std::string Completions(const std::vector<CommandPage>& pages,
                        const std::map<std::string, std::vector<std::string>>& names,
                        const std::vector<std::string>& words);

}  // namespace stepcast::cli
