#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {

// No configuration is larger: they are kilobytes, and reading them compares their parts.
inline constexpr std::size_t kLargestConfiguration = std::size_t{1} << 20;

// How a file's text is taken apart.
enum class Syntax : std::uint8_t { kToml, kYaml, kShell, kPython };

// By its ending, else by how it begins.
Syntax SyntaxOf(const std::string& file, std::string_view text);

// Whether this is the name of a recipe (recipes.h), and not of a file.
bool IsRecipe(const std::string& name);

// Whether the file is one that Import takes: another program's configuration, or a recipe. False
// for scenarios, for files that cannot be read or are too large, for pipes, which can be read only
// once, and for files of which nothing is known.
bool IsOfAnotherProgram(const std::string& file);

}  // namespace stepcast::foreign
