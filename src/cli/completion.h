#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/cli/command_page.h"

// Words that a shell offers when Tab is pressed. Its script asks the program itself, so that what
// is offered is what this version takes.
namespace stepcast::cli {

inline constexpr const char* kComplete = "complete";

// The shells that there are scripts for.
const std::vector<std::string>& CompletionShells();
// The script of one of them.
std::string CompletionScript(const std::string& shell);

// What may stand in the place of the last of `words`, which follow the program's name: a line each,
// a word and, behind a tab, what it means. A line of kFilesToo alone: names of files, too.
inline constexpr const char* kFilesToo = ":files";
// `names`: what a value of some type may be, besides a file: of "MODEL" the models that come along.
// A name that ends with an equals sign is half of a value, "training.precision=".
std::string Completions(const std::vector<CommandPage>& pages,
                        const std::map<std::string, std::vector<std::string>>& names,
                        const std::vector<std::string>& words);

}  // namespace stepcast::cli
