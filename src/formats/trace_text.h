#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "src/base/diagnostic.h"

namespace stepcast::formats {

// No trace is larger when it is unpacked; a limit, so that a small file cannot fill the memory.
inline constexpr std::size_t kLargestTrace = std::size_t{2} << 30;

// The whole of a file, unpacked if it is gzip. Otherwise appends why not and returns nothing: it
// cannot be read (as ReadAnyFile says it), its packing is damaged, or it is too large.
std::optional<std::string> ReadTrace(const std::string& path, Diagnostics& diagnostics,
                                     std::size_t largest = kLargestTrace);

}  // namespace stepcast::formats
