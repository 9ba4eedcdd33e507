#include "src/report/json_values.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
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
  return std::visit(
      [](const auto& value) -> Json {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<Value, scenario::Resolved::Sequence>) {
          Json array = Json::array();
          for (const scenario::Resolved& element : value) array.push_back(ToJson(element));
          return array;
        } else if constexpr (std::is_same_v<Value, scenario::Resolved::Mapping>) {
          Json object = Json::object();
          for (const auto& [key, element] : value) object[key] = ToJson(element);
          return object;
        } else {
          return value;
        }
      },
      resolved.value);
}

std::string Text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast::report
