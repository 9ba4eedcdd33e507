#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/cli/command_page.h"

// Hints for mistakes in the words of a command line. Each hint contains words that can be pasted.
namespace stepcast::cli {

// For an option that the command does not have. `value`: the value that was given; empty: none.
std::string UnknownOptionHint(std::string_view option, std::string_view value,
                              const CommandPage& command, const std::vector<CommandPage>& pages);

// For a word that names no command. `group`: the page of the command before it, or the program's.
std::string UnknownCommandHint(std::string_view word, const CommandPage& group,
                               const std::vector<CommandPage>& pages);

// For a missing argument or option. `words`: the words that were given, without the program's name.
std::string MissingHint(const OptionPage& missing, const CommandPage& command,
                        const std::vector<std::string>& words);

// For words that are neither options nor arguments: the command with each of them as the value of
// an option, or else the command's usage. `words`: as in MissingHint.
std::string UnexpectedHint(const CommandPage& command, const std::vector<std::string>& words);

// An option with a value from the command's examples, "--tokens 15T"; without one, with
// `otherwise`.
std::string OptionExample(const std::string& option, const CommandPage& command,
                          const std::string& otherwise);

// The whole number that a text means: 8192 for "8k", 4096 for "4,096" or "4096.0". k, m and g are
// powers of 1024. Nothing for other texts.
std::optional<std::string> WholeNumberMeant(std::string_view text);

// The allowed word that a text means: the word itself, or the word with other capital letters, with
// hyphens for underscores, in the singular or the plural. Empty: none.
std::string AllowedWord(std::string_view text, const std::vector<std::string>& allowed);

}  // namespace stepcast::cli
