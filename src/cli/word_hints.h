#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/cli/command_page.h"

// Hints for mistakes in the words of a command line. Each hint contains words that can be pasted.
namespace stepcast::cli {

// Returns the hint for an unknown option of a command. `value` is the value of the option in the
// command line, or empty. `words` is the command line without the program's name.
std::string UnknownOptionHint(std::string_view option, std::string_view value,
                              const CommandPage& command, const std::vector<CommandPage>& pages,
                              const std::vector<std::string>& words = {});

// Returns the option --gpus for a number and a type of GPUs that were written apart, such as "h100"
// and "8": "--gpus '8 x h100'". Empty for other options, and if the values have another meaning.
std::string GpusMeant(const std::string& option, const std::vector<std::string>& values);

// Returns the hint for a word that is not a command. `group` is the page of the command before the
// word, or the program's page if no command precedes the word.
std::string UnknownCommandHint(std::string_view word, const CommandPage& group,
                               const std::vector<CommandPage>& pages);

// Returns the hint for a missing argument or option. `words` is the command line without the
// program's name.
std::string MissingHint(const OptionPage& missing, const CommandPage& command,
                        const std::vector<std::string>& words);

// Returns the hint for words that are neither options nor arguments. If the words can be values of
// an option, the hint is the command with this option before each word. Otherwise, the hint is the
// command's usage. `words` is the command line without the program's name.
std::string UnexpectedHint(const CommandPage& command, const std::vector<std::string>& words);

// Returns the option with a value from the command's examples, such as "--tokens 15T", or with
// `otherwise` if no example contains the option.
std::string OptionExample(const std::string& option, const CommandPage& command,
                          const std::string& otherwise);

// Returns the integer that a text probably means: 8192 for "8k", 4096 for "4,096" and "4096.0". The
// units k, m and g are powers of 1024. Returns none for other texts.
std::optional<std::string> WholeNumberMeant(std::string_view text);

// Returns the allowed word that a text probably means: the text may differ in case, in hyphens
// instead of underscores, or in singular and plural. Returns "" if no allowed word is similar.
std::string AllowedWord(std::string_view text, const std::vector<std::string>& allowed);

}  // namespace stepcast::cli
