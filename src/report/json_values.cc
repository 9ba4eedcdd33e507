#include "src/report/json_values.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <variant>

#include "src/report/categories.h"

namespace stepcast::report {

double JsonSeconds(Time time) { return static_cast<double>(time.picoseconds()) / 1e12; }

Json JsonNumber(double number) {
  constexpr double kLastExactInteger = 9007199254740992.0;  // 2^53
  if (std::abs(number) <= kLastExactInteger && number == std::floor(number)) {
    return static_cast<std::int64_t>(number);
  }
  return number;
}

void AddCategories(Json& object, const forecast::BytesByCategory& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    object[std::string(kCategoryNames[i]) + "_bytes"] = bytes[i].count();
  }
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

std::string Text(const Json& document) { return document.Indented() + "\n"; }

std::string Line(const Json& document) { return document.dump() + "\n"; }

}  // namespace stepcast::report
