#pragma once

#include <cstddef>

namespace stepcast {

// Of the mistakes of one command no more than this many are printed, and then how many there are
// besides. Readers of files that hold nothing else stop there.
inline constexpr std::size_t kMostShownFaults = 100;

}  // namespace stepcast
