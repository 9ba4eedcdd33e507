#include "src/report/json.h"

#include <cmath>
#include <cstdint>
#include <variant>

#include "fmt/format.h"

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

std::string Text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string OneLine(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Field(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return OneLine(value);
}

}  // namespace stepcast::report
