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
#include "src/scenario/resolved.h"

namespace stepcast::report {

// A JSON document for writing; keys keep the order in which they were added. nlohmann-json reads
// JSON and formats numbers and strings; this class has a part of its interface. That library takes
// a second to include, so only json.cc includes it. Internal to this package.

class Json {
 public:
  class Part;  // an element of a braced list

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
  // An object if all parts are pairs that begin with a string, otherwise an array.
  Json(std::initializer_list<Part> parts);
  static Json array(std::initializer_list<Part> parts = {});
  static Json object();

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  bool is_null() const;
  bool operator==(const Json& other) const;
  // Requires an integer that was signed.
  std::int64_t Integer() const;

  // The value of a key, added if it is missing. Requires an object or null, which becomes an
  // object.
  Json& operator[](std::string_view key);
  // The value of a key, or `otherwise` if it is missing. Requires an object.
  Json value(std::string_view key, Json otherwise) const;
  // Sets all keys of another object in this one.
  void update(const Json& other);
  // Appends to an array; null becomes an array.
  void push_back(Json value);
  // An existing element of an array.
  Json& operator[](std::size_t index);
  Json& back();
  // The number of values of an array or object; 0 for null, otherwise 1.
  std::size_t size() const;

  // On one line. Invalid UTF-8 is replaced.
  std::string dump() const;
  // As a field of CSV: plain text, nothing for null, otherwise like dump.
  std::string Field() const;
  // In several lines, indented by two spaces per level.
  std::string Indented() const;

 private:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;
  struct Library;  // the library's equal value

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
  mutable Json value_;  // elements of braced lists are const, but are moved from
};

// Values in the form of the JSON documents. Internal to this package.

// Seconds, correctly rounded: 12.5 ms is 0.0125, not 0.012500000000000001.
double JsonSeconds(Time time);

// A number that may be a mean over ranks: an integer if it has no fraction.
Json JsonNumber(double number);

Json ToJson(const scenario::Resolved& resolved);
// Keys with their values.
Json SetJson(const std::vector<std::pair<std::string, std::string>>& settings);

// The text of a document, with a newline at its end. Invalid bytes of UTF-8 are replaced.
std::string Text(const Json& document);
// The same on one line.
std::string Line(const Json& document);
}  // namespace stepcast::report
