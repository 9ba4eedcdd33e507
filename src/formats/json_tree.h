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

// The tree of a document of at most `most_values` values, nested at most 64 levels: more were made
// to cost memory, and code that walks the tree may recurse. `Json` is nlohmann::json, or
// nlohmann::ordered_json, which looks for each key among those before it.
template <typename Json = nlohmann::json>
tl::expected<Json, JsonFault> ParseJsonTree(std::string_view text,
                                            std::size_t most_values = 1'000'000);

extern template tl::expected<nlohmann::json, JsonFault> ParseJsonTree(std::string_view,
                                                                      std::size_t);
extern template tl::expected<nlohmann::ordered_json, JsonFault> ParseJsonTree(std::string_view,
                                                                              std::size_t);

}  // namespace stepcast::formats
