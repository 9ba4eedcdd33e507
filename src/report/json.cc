#include "src/report/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "src/base/check.h"

namespace stepcast::report {
double JsonSeconds(Time time) { return static_cast<double>(time.picoseconds()) / 1e12; }

Json JsonNumber(double number) {
  constexpr double kLastExactInteger = 9007199254740992.0;  // 2^53
  if (std::abs(number) <= kLastExactInteger && number == std::floor(number)) {
    return static_cast<std::int64_t>(number);
  }
  return number;
}

Json ToJson(const scenario::Resolved& resolved) {
  using scenario::Resolved;
  if (const auto* mapping = std::get_if<Resolved::Mapping>(&resolved.value)) {
    Json object = Json::object();
    for (const auto& [key, element] : *mapping) object[key] = ToJson(element);
    return object;
  }
  if (const auto* sequence = std::get_if<Resolved::Sequence>(&resolved.value)) {
    Json array = Json::array();
    for (const Resolved& element : *sequence) array.push_back(ToJson(element));
    return array;
  }
  if (const auto* text = std::get_if<std::string>(&resolved.value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&resolved.value)) return *number;
  if (const auto* flag = std::get_if<bool>(&resolved.value)) return *flag;
  return nullptr;
}

Json SetJson(const std::vector<std::pair<std::string, std::string>>& settings) {
  Json set = Json::object();
  for (const auto& [key, value] : settings) set[key] = value;
  return set;
}

std::string Text(const Json& document) { return document.Indented() + "\n"; }

std::string Line(const Json& document) { return document.dump() + "\n"; }

struct Json::Library {
  using Value = nlohmann::ordered_json;

  static Value Of(const Json& json) {
    return std::visit([](const auto& value) { return Of(value); }, json.value_);
  }
  static Value Of(const Array& array) {
    Value result = Value::array();
    for (const Json& element : array) result.push_back(Of(element));
    return result;
  }
  static Value Of(const Object& object) {
    // The library's insertion would search all earlier keys for each key.
    Value::object_t result;
    result.reserve(object.size());
    for (const Member& member : object) {
      result.Container::emplace_back(member.key, Of(member.value));
    }
    return result;
  }
  template <typename Scalar>
  static Value Of(const Scalar& value) {
    return value;
  }

  static std::string Text(const Json& json, int indentation) {
    return Of(json).dump(indentation, ' ', false, Value::error_handler_t::replace);
  }
};

Json::Json() = default;
Json::Json(double value) : value_(value) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const char* value) : value_(std::string(value)) {}

Json::Json(std::initializer_list<Part> parts) {
  const bool pairs = std::all_of(parts.begin(), parts.end(), [](const Part& part) {
    const Array* pair = std::get_if<Array>(&part.value_.value_);
    return pair != nullptr && pair->size() == 2 &&
           std::holds_alternative<std::string>(pair->front().value_);
  });
  if (!pairs) {
    *this = array(parts);
    return;
  }
  *this = object();
  for (const Part& part : parts) {
    Array& pair = std::get<Array>(part.value_.value_);
    (*this)[std::get<std::string>(pair[0].value_)] = std::move(pair[1]);
  }
}

Json Json::array(std::initializer_list<Part> parts) {
  Array values;
  values.reserve(parts.size());
  for (const Part& part : parts) values.push_back(std::move(part.value_));
  Json json;
  json.value_ = std::move(values);
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json other) noexcept {
  value_.swap(other.value_);
  return *this;
}
Json::~Json() = default;

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

std::int64_t Json::Integer() const {
  const std::int64_t* number = std::get_if<std::int64_t>(&value_);
  STEPCAST_CHECK(number != nullptr, "the value must be a whole number");
  return *number;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  Object* members = std::get_if<Object>(&value_);
  STEPCAST_CHECK(members != nullptr, "only an object can have keys");
  for (Member& member : *members) {
    if (member.key == key) return member.value;
  }
  return members->emplace_back(Member{std::string(key), Json()}).value;
}

Json Json::value(std::string_view key, Json otherwise) const {
  const Object* members = std::get_if<Object>(&value_);
  STEPCAST_CHECK(members != nullptr, "only an object can have keys");
  for (const Member& member : *members) {
    if (member.key == key) return member.value;
  }
  return otherwise;
}

void Json::update(const Json& other) {
  const Object* members = std::get_if<Object>(&other.value_);
  STEPCAST_CHECK(members != nullptr, "only an object can have keys");
  for (const Member& member : *members) (*this)[member.key] = member.value;
}

void Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  Array* values = std::get_if<Array>(&value_);
  STEPCAST_CHECK(values != nullptr, "elements can be appended only to an array");
  values->push_back(std::move(value));
}

Json& Json::operator[](std::size_t index) {
  Array* values = std::get_if<Array>(&value_);
  STEPCAST_CHECK(values != nullptr && index < values->size(),
                 "the array must have an element with this index");
  return (*values)[index];
}

Json& Json::back() { return (*this)[size() - 1]; }

std::size_t Json::size() const {
  if (const Array* values = std::get_if<Array>(&value_)) return values->size();
  if (const Object* members = std::get_if<Object>(&value_)) return members->size();
  return is_null() ? 0 : 1;
}

std::string Json::Field() const {
  if (is_null()) return "";
  if (const auto* text = std::get_if<std::string>(&value_)) return *text;
  if (const auto* number = std::get_if<double>(&value_)) return fmt::format("{}", *number);
  return dump();
}

std::string Json::dump() const { return Library::Text(*this, -1); }

std::string Json::Indented() const {
  constexpr int kSpaces = 2;
  return Library::Text(*this, kSpaces);
}

}  // namespace stepcast::report
