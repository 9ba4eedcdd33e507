#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/scenario/resolved.h"

namespace stepcast::report {

// A JSON document that is being written; keys keep the order in which they were added. Reading
// JSON, and the text of numbers and strings, is nlohmann-json's, whose interface this follows as
// far as it goes. That library takes a second to include, hence here only json.cc does. For the .cc
// files of this package only.

class Json {
 public:
  class Part;  // of a list in braces

  Json();  // null
  Json(std::nullptr_t) : Json() {}
  template <std::integral T>
  Json(T value);
  Json(double value);  // null unless finite
  Json(std::string value);
  Json(std::string_view value);
  Json(const char* value);
  // An array.
  template <typename T>
  Json(const std::vector<T>& values) : Json(array()) {
    for (const T& value : values) push_back(value);
  }
  // An object where all parts are pairs that begin with a string, else an array.
  Json(std::initializer_list<Part> parts);
  static Json array(std::initializer_list<Part> parts = {});
  static Json object();

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  bool is_null() const;
  bool operator==(const Json& other) const;
  // Requires a whole number that was signed.
  std::int64_t Integer() const;

  // The value of a key, which is added where it is missing. Requires an object; null becomes one.
  Json& operator[](std::string_view key);
  // The value of a key, or `otherwise`. Requires an object.
  Json value(std::string_view key, Json otherwise) const;
  // Sets the keys of another object.
  void update(const Json& other);
  // Adds to an array; null becomes one.
  void push_back(Json value);
  // An element of an array that has it.
  Json& operator[](std::size_t index);
  Json& back();
  // Values of an array or object; 0 for null, else 1.
  std::size_t size() const;

  // On one line. Bytes that are not UTF-8 are replaced.
  std::string dump() const;
  // As a field of CSV: text as it is, nothing for null, else as dump.
  std::string Field() const;
  // By lines, with two spaces for each level.
  std::string Indented() const;

 private:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;
  struct Library;  // the library's value of the same

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

struct Json::Member {
  std::string key;
  Json value;
  bool operator==(const Member& other) const = default;
};

// The constructor is defined here because clang needs the definition of Member for it.
template <std::integral T>
Json::Json(T value) {
  if constexpr (std::same_as<T, bool>) {
    value_ = value;
  } else if constexpr (std::signed_integral<T>) {
    value_ = static_cast<std::int64_t>(value);
  } else {
    value_ = static_cast<std::uint64_t>(value);
  }
}

class Json::Part {
 public:
  template <typename T>
  requires std::constructible_from<Json, T> Part(T&& value) : value_(std::forward<T>(value)) {}
  Part(std::initializer_list<Part> parts) : value_(parts) {}

 private:
  friend class Json;
  mutable Json value_;  // elements of lists in braces are constant, but are moved from
};

// Values as the JSON documents hold them. For the .cc files of this package only.

// Seconds, correctly rounded: 12.5 ms is 0.0125 and not 0.012500000000000001.
double JsonSeconds(Time time);

// A count that is a mean over ranks: without a fraction when it is whole.
Json JsonNumber(double number);

// "parameters_bytes": 0, ... in the order of program::Category.
void AddCategories(Json& object, const forecast::BytesByCategory& bytes);

Json ToJson(const scenario::Resolved& resolved);

// The text of a document, with a newline at its end. Text that is not UTF-8 keeps its readable
// part.
std::string Text(const Json& document);
// The same on one line.
std::string Line(const Json& document);

// The parts of the JSON documents that hold figures of a step, be they forecast or measured. For
// the .cc files of this package only.

Json TimeJson(const forecast::TimeBreakdown& time);  // "time_s"
// One object a class of ranks, as docs/formats.md says; none where all ranks are one.
Json ClassesJson(const forecast::Forecast& forecast);
Json CommunicationJson(const forecast::Forecast& forecast);  // "communication"
Json LengthsJson(const forecast::LengthsForecast& lengths);  // "lengths"
Json MemoryJson(const forecast::MemoryForecast& memory);     // "memory"

}  // namespace stepcast::report
