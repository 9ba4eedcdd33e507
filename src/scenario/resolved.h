#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace stepcast::scenario {

// A scenario with all values that stepcast uses, for output. It is an ordered tree of mappings,
// sequences and scalars. Quantities are texts with units that parse back to the same value.
struct Resolved {
  using Mapping = std::vector<std::pair<std::string, Resolved>>;
  using Sequence = std::vector<Resolved>;
  std::variant<std::monostate, bool, std::int64_t, std::string, Sequence, Mapping> value;
};

// Returns a key's missing value, which means the default. (Constructing it here avoids a bug of
// clang 14. The compiler cannot complete this recursive type if it encounters the pair of a Mapping
// before a Resolved.)
inline Resolved Nothing() { return {}; }

}  // namespace stepcast::scenario
