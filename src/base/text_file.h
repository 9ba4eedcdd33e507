#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"

namespace stepcast {

// No input file is larger; a limit, so that a wrong path cannot fill the memory.
inline constexpr std::size_t kLargestInputFile = std::size_t{16} << 20;

// The whole of a text file. Otherwise appends why not and returns nothing: it does not exist, is a
// directory or a device, cannot be read, is larger than kLargestInputFile, or is not text.
std::optional<std::string> ReadTextFile(const std::string& path, Diagnostics& diagnostics);

// The same for what other tools wrote: it need not be text (terminals' escape sequences). A caller
// that takes it apart checks it.
std::optional<std::string> ReadAnyFile(const std::string& path, Diagnostics& diagnostics);

// Whether `text`, read from `file`, is what an input file may hold: UTF-8 without control
// characters (tabs and line ends apart). Otherwise appends where it stops being so.
bool CheckText(std::string_view text, const std::string& file, Diagnostics& diagnostics);

}  // namespace stepcast
