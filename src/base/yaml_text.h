#pragma once

#include <string>
#include <string_view>

// Text as a YAML document holds it (YAML 1.2.2, chapter 7). Every file that is written as YAML asks
// here, so that what was written reads back.
namespace stepcast {

// The text in double quotes, on one line: quotes, backslashes, tabs and line ends as escapes. What
// an input file may not hold (other control characters, what turns text round, bytes that are not
// UTF-8) stands as a message shows it: "\x1b" as these four characters.
std::string YamlQuoted(std::string_view text);

// The text as a scalar or a key on one line: without quotes where YAML takes it for just this text
// wherever it stands, otherwise in double quotes.
std::string YamlScalar(std::string_view text);

// Whether YAML takes the text for itself without quotes, in a block, in a flow and as a key. A word
// for null ("null", "~") is not plain; a number is.
bool IsPlainYaml(std::string_view text);

}  // namespace stepcast
