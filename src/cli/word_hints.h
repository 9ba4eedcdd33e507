#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/cli/command_page.h"

// Hints for mistakes in the words of a command line. Each hint contains words that can be pasted.
namespace stepcast::cli {

// Returns the hint for an option that the command does not have. `value` is the value that was
// given, or empty.
std::string UnknownOptionHint(std::string_view option, std::string_view value,
                              const CommandPage& command, const std::vector<CommandPage>& pages);

// Returns the hint for a word that names no command. `group` is the page of the command before the
// word. If no command precedes the word, it is the program's page.
std::string UnknownCommandHint(std::string_view word, const CommandPage& group,
                               const std::vector<CommandPage>& pages);

// Returns the hint for a missing argument or option. `words` are the words that were given, without
// the program's name.
std::string MissingHint(const OptionPage& missing, const CommandPage& command,
                        const std::vector<std::string>& words);

// Returns the hint for words that are neither options nor arguments. If the words can be values of
// an option, the hint is the command with this option before each word. Otherwise, it is the
// command's usage. `words` are as in MissingHint.
std::string UnexpectedHint(const CommandPage& command, const std::vector<std::string>& words);

// Returns the option with a value from the command's examples, such as "--tokens 15T". If no
// example has the option, the value is `otherwise`.
std::string OptionExample(const std::string& option, const CommandPage& command,
                          const std::string& otherwise);

// Returns the whole number that a text means: 8192 for "8k", 4096 for "4,096" and "4096.0". The
// units k, m and g are powers of 1024. Returns none for other texts.
std::optional<std::string> WholeNumberMeant(std::string_view text);

// Returns the allowed word that a text means. The text may differ from the word in upper and lower
// case, in hyphens for underscores, and in singular or plural. Empty: there is no such word.
std::string AllowedWord(std::string_view text, const std::vector<std::string>& allowed);

}  // namespace stepcast::cli
