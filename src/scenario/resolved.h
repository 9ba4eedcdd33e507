#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace stepcast::scenario {

// The scenario as it was understood, for output: an ordered tree of mappings, sequences and
// scalars. Quantities are text with units that reads back to the same value.
struct Resolved {
  using Mapping = std::vector<std::pair<std::string, Resolved>>;
  using Sequence = std::vector<Resolved>;
  std::variant<std::monostate, bool, std::int64_t, std::string, Sequence, Mapping> value;
};

// A key that has no value: the default. (To make one here spares clang 14 a mistake: it cannot
// complete this recursive type where it meets the pair of a Mapping before a Resolved.)
inline Resolved Nothing() { return {}; }

}  // namespace stepcast::scenario
