#include "tests/documentation/json_schema.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "fmt/format.h"

namespace stepcast {
namespace {

using nlohmann::json;

bool IsOfType(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type != "integer" || !value.is_number()) return false;
  return value.is_number_integer() || value.get<double>() == std::floor(value.get<double>());
}

class Checker {
 public:
  explicit Checker(const json& root) : root_(root) {}

  void Check(const json& value, const json& schema, const std::string& place) {
    for (const auto& [word, rule] : schema.items()) {
      if (!Holds(word, rule, value, schema, place)) {
        mistakes_.push_back(fmt::format("{}: {} does not hold '{}': {}", place,
                                        value.dump().substr(0, 100), word,
                                        rule.dump().substr(0, 200)));
      }
    }
  }

  std::vector<std::string> mistakes() && { return std::move(mistakes_); }

 private:
  // Returns false for a mistake, which the caller must record.
  bool Holds(const std::string& word, const json& rule, const json& value, const json& schema,
             const std::string& place) {
    static const std::set<std::string> kSaid = {"$schema", "$id", "title", "description",
                                                "definitions"};
    if (kSaid.contains(word)) return true;
    if (word == "type") {
      const json types = rule.is_array() ? rule : json::array({rule});
      return std::any_of(types.begin(), types.end(),
                         [&](const json& type) { return IsOfType(value, type); });
    }
    if (word == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (word == "minimum") return !value.is_number() || value >= rule;
    if (word == "maximum") return !value.is_number() || value <= rule;
    if (word == "pattern") {
      return !value.is_string() ||
             std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
    }
    if (word == "anyOf") {
      return std::any_of(rule.begin(), rule.end(), [&](const json& one) {
        Checker other(root_);
        other.Check(value, one, place);
        return other.mistakes_.empty();
      });
    }
    if (word == "$ref") {
      Check(value, root_.at(json::json_pointer(rule.get<std::string>().substr(1))), place);
      return true;
    }
    if (word == "items") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
        Check(value[i], rule, fmt::format("{}[{}]", place, i));
      }
      return true;
    }
    if (word == "properties") {
      for (const auto& [key, own] : rule.items()) {
        if (value.is_object() && value.contains(key)) Check(value[key], own, place + "." + key);
      }
      return true;
    }
    if (word == "required") {
      return std::all_of(rule.begin(), rule.end(), [&](const json& key) {
        return !value.is_object() || value.contains(key.get<std::string>());
      });
    }
    if (word == "additionalProperties") return HoldsOthers(rule, value, schema, place);
    return false;  // an unknown keyword
  }

  // Checks keys that `properties` does not name.
  bool HoldsOthers(const json& rule, const json& value, const json& schema,
                   const std::string& place) {
    if (!value.is_object()) return true;
    for (const auto& [key, member] : value.items()) {
      if (schema.contains("properties") && schema["properties"].contains(key)) continue;
      if (rule.is_object()) Check(member, rule, place + "." + key);
      if (rule == false) return false;
    }
    return true;
  }

  const json& root_;
  std::vector<std::string> mistakes_;
};

}  // namespace

std::vector<std::string> Mistakes(const json& document, const json& schema) {
  Checker checker(schema);
  checker.Check(document, schema, "");
  return std::move(checker).mistakes();
}

}  // namespace stepcast
