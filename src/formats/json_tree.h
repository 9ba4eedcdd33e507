#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "tl/expected.hpp"

namespace stepcast::formats {

// Why a text is no JSON that is read.
struct JsonFault {
  std::size_t offset = 0;  // where the parser stopped; 0 where it does not tell
  std::string what;        // "it is cut off", "unexpected text", "a number is too large"
};

// The tree of a document of at most a million values, nested at most 64 levels: more were made to
// cost memory, and code that walks the tree may recurse.
tl::expected<nlohmann::json, JsonFault> ParseJsonTree(std::string_view text);

}  // namespace stepcast::formats
