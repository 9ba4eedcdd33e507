#pragma once

#include <cstddef>

namespace stepcast {

// A command prints at most this many mistakes, and behind them the number of the others. A reader
// that finds so many in one file stops reading it.
inline constexpr std::size_t kMostShownFaults = 100;

}  // namespace stepcast
