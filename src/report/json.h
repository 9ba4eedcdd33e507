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

// A JSON document for output, with keys in the order of insertion. The interface is a subset of
// nlohmann-json's. Only json.cc includes nlohmann-json, because it compiles slowly. Internal to
// this package.

class Json {
 public:
  class Part;  // an element of a braced list

  Json();  // null
  Json(std::nullptr_t) : Json() {}
  template <std::integral T>
  Json(T value);
  Json(double value);  // null if the value is not finite
  Json(std::string value);
  Json(std::string_view value);
  Json(const char* value);
  // Creates an array.
  template <typename T>
  Json(const std::vector<T>& values) : Json(array()) {
    for (const T& value : values) push_back(value);
  }
  // Creates an object if all parts are pairs whose first element is a string, and an array
  // otherwise.
  Json(std::initializer_list<Part> parts);
  static Json array(std::initializer_list<Part> parts = {});
  static Json object();

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  bool is_null() const;
  bool operator==(const Json& other) const;
  // Returns the value as an integer. The value must have been created from a signed integer.
  std::int64_t Integer() const;

  // Returns the value of a key, which is added if it is missing. The document must be an object or
  // null; null becomes an object.
  Json& operator[](std::string_view key);
  // Returns the value of a key, or `otherwise` if the key is missing. The document must be an
  // object.
  Json value(std::string_view key, Json otherwise) const;
  // Sets all keys of `other` in this object.
  void update(const Json& other);
  // Appends a value to an array. A null becomes an array.
  void push_back(Json value);
  // Returns an existing element of an array.
  Json& operator[](std::size_t index);
  Json& back();
  // Returns the number of values of an array or object, 0 for null, and 1 for all other values.
  std::size_t size() const;

  // Returns the document on one line. Invalid UTF-8 is replaced.
  std::string dump() const;
  // Returns the value as a CSV field: a string without quotes, nothing for null, otherwise dump().
  std::string Field() const;
  // Returns the document on several lines, indented by two spaces per level.
  std::string Indented() const;

 private:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;
  struct Library;  // the equal value of nlohmann-json

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;
};

struct Json::Member {
  std::string key;
  Json value;
  bool operator==(const Member& other) const = default;
};

// This constructor is defined here because clang needs the definition of Member.
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

// Converts values to their format in JSON documents. Internal to this package.

// Returns a time in seconds, correctly rounded: 12.5 ms is 0.0125, not 0.012500000000000001.
double JsonSeconds(Time time);

// Returns a number, such as a mean over ranks. A number without a fraction is written as an
// integer.
Json JsonNumber(double number);

Json ToJson(const scenario::Resolved& resolved);
// Returns an object with these keys and values.
Json SetJson(const std::vector<std::pair<std::string, std::string>>& settings);

// Returns the document as text that ends in a newline. Invalid UTF-8 is replaced.
std::string Text(const Json& document);
// Returns the document on one line.
std::string Line(const Json& document);
}  // namespace stepcast::report
