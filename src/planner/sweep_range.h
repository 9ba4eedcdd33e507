#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tl/expected.hpp"

namespace stepcast::planner {

struct RangeFault {
  std::string code;
  std::string message;
  std::string hint;
};

// The values of a range, or what is wrong with it; nothing when the text is no range but a value.
//   1..64 x2            1, 2, 4, ..., 64: each the one before times 2
//   1..9 +2             1, 3, 5, 7, 9: each the one before plus 2
//   5 MiB..100 MiB x2   5 MiB, 10 MiB, ..., 80 MiB
// Ends and steps are plain decimals, or bytes, times or bandwidths with their units; factors are
// whole numbers. The first end is always a value, the second only if a step meets it. A text is a
// range if a number stands before its first "..", so a path such as "../models/gpt2.yaml" is not.
std::optional<tl::expected<std::vector<std::string>, RangeFault>> ReadRange(std::string_view text);

// Gives the text without the blanks and tabs at its two ends.
std::string_view Trimmed(std::string_view text);

}  // namespace stepcast::planner
