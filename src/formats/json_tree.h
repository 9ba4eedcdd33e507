#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "src/base/diagnostic.h"
#include "tl/expected.hpp"

namespace stepcast::formats {

// A value of a JSON document, with the position of its key.
struct JsonValue {
  enum class Kind : std::uint8_t { kNull, kBoolean, kInteger, kNumber, kText, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;   // for kInteger
  double number = 0;          // for kInteger and kNumber
  std::string text{};         // for kText
  std::int64_t elements = 0;  // for kArray and kObject: number of direct values
  Location location{};

  // Returns the value as text for messages, such as "'0.5'", "true", "an array" or "null".
  std::string Described() const;
};

// The values of a JSON object and its nested objects, by dotted path, such as "n_embd" or
// "attn_config.alibi". For an array, only its strings, numbers and booleans are listed, by index:
// "architectures.0". Objects nested deeper than kDeepest keys are listed without content.
class JsonObject {
 public:
  static constexpr std::size_t kDeepest = 4;

  // Parses a text. `file` is the file name in positions. Errors: the text is not a JSON object, or
  // an object has duplicate keys.
  static Result<JsonObject> Parse(std::string_view text, const std::string& file);

  // Returns the value of a path, or null if the key is missing. This object owns the value.
  const JsonValue* Find(const std::string& path) const;
  // Returns all values, by path.
  const std::map<std::string, JsonValue>& values() const { return values_; }
  const Location& location() const { return location_; }  // location of the object

 private:
  std::map<std::string, JsonValue> values_;
  Location location_;
};

// Why a text is not valid JSON.
struct JsonFault {
  std::size_t offset = 0;  // where the parser stopped; 0 if unknown
  std::string what;        // "it is cut off", "unexpected text", "a number is too large"
};

// Returns the tree of a document with at most `most_values` values and 64 nested levels. The limits
// bound memory and the depth of recursions. `Json` is nlohmann::json, or nlohmann::ordered_json, in
// which a key is searched linearly.
template <typename Json = nlohmann::json>
tl::expected<Json, JsonFault> ParseJsonTree(std::string_view text,
                                            std::size_t most_values = 1'000'000);

extern template tl::expected<nlohmann::json, JsonFault> ParseJsonTree(std::string_view,
                                                                      std::size_t);
extern template tl::expected<nlohmann::ordered_json, JsonFault> ParseJsonTree(std::string_view,
                                                                              std::size_t);

}  // namespace stepcast::formats
