#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace stepcast::scenario {

// A scenario with all values that stepcast uses, for output: an ordered tree of mappings, sequences
// and scalars. Quantities are texts with units that can be parsed without loss.
struct Resolved {
  using Mapping = std::vector<std::pair<std::string, Resolved>>;
  using Sequence = std::vector<Resolved>;
  std::variant<std::monostate, bool, std::int64_t, std::string, Sequence, Mapping> value;
};

// Returns the value of a missing key, which means the default. (A function because clang 14 cannot
// complete the recursive type in some orders of use.)
inline Resolved Nothing() { return {}; }

}  // namespace stepcast::scenario
