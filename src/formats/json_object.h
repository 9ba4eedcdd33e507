#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"

namespace stepcast::formats {

// A value of a JSON document and where its key stands.
struct JsonValue {
  enum class Kind : std::uint8_t { kNull, kBoolean, kInteger, kNumber, kText, kArray, kObject };

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;   // kInteger
  double number = 0;          // kInteger and kNumber
  std::string text{};         // kText
  std::int64_t elements = 0;  // kArray and kObject: how many values stand directly in it
  Location location{};

  // For messages: "'0.5'", "true", "an array", "null".
  std::string Described() const;
};

// The values of a JSON object and of the objects in it, by dotted path: "n_embd",
// "attn_config.alibi". Of what an array holds the texts alone are there: "architectures.0". Objects
// whose keys would make a path of more than kDeepest keys are there, but not their content.
class JsonObject {
 public:
  static constexpr std::size_t kDeepest = 4;

  // Mistakes: text that is not JSON or not an object, and keys that stand there twice. `file` names
  // the text in positions.
  static Result<JsonObject> Parse(std::string_view text, const std::string& file);

  // Null when the key is absent.
  const JsonValue* Find(const std::string& path) const;
  // All of them, by path.
  const std::map<std::string, JsonValue>& values() const { return values_; }
  const Location& location() const { return location_; }  // of the object

 private:
  std::map<std::string, JsonValue> values_;
  Location location_;
};

}  // namespace stepcast::formats
