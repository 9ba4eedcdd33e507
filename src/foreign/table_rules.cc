#include <algorithm>
#include <string>

#include "src/base/check.h"
#include "src/foreign/framework.h"
#include "src/scenario/family_expression.h"

namespace stepcast::foreign {
namespace {

using scenario::FamilyValue;
using scenario::YamlNode;

// Returns the option's name for a name in an expression, which has no hyphens.
std::string Hyphenated(std::string_view name) {
  std::string option(name);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

}  // namespace

FamilyValue Reading::ValueOf(std::string_view name) const {
  if (const auto local = locals_.find(name); local != locals_.end()) {
    return local->second;
  }
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string_view kind = name.substr(0, dot);
  const std::string_view rest = name.substr(std::min(dot + 1, name.size()));
  const auto option = [this](std::string_view spelled) {
    std::string name = RowOf(spelled) != nullptr ? std::string(spelled) : Hyphenated(spelled);
    STEPCAST_CHECK(RowOf(name) != nullptr, "names in rules are options of the table");
    return name;
  };
  if (kind == "text") return FamilyValue::Of(Text(option(rest)));
  if (kind == "stated") return FamilyValue::Of(Stated(option(rest)) != nullptr);
  if (kind == "key") {
    const Entry* const entry = draft_.Find(rest);
    return FamilyValue::Of(entry == nullptr ? std::string() : entry->value.text);
  }
  if (kind == "degree") return FamilyValue::Of(draft_.Integer(rest).value_or(1));
  if (kind == "integer") {
    const auto integer = Integer(option(rest));
    return integer ? FamilyValue::Of(*integer) : FamilyValue();
  }
  if (kind == "number") {
    const auto value = Get(option(rest));
    const auto number = value ? value->Number() : std::nullopt;
    return number ? FamilyValue::Of(*number) : FamilyValue();
  }
  return FamilyValue::Of(IsOn(option(name)));
}

bool Reading::ApplyRule(const YamlNode& rule) {
  const auto field = [&rule](const char* key) { return TextAt(rule, key); };
  const auto value_of = [this](std::string_view expression) {
    return scenario::Evaluate(expression, [this](std::string_view name) { return ValueOf(name); });
  };
  const std::string_view on = field("on");
  if (!on.empty() && !IsOn(on)) return false;
  if (const auto condition = field("if"); !condition.empty() && !value_of(condition).IsTrue()) {
    return false;
  }
  const std::string_view key = field("set");
  if (const auto local = field("let"); !local.empty()) {
    locals_[std::string(local)] = value_of(field("to"));
  } else if (const auto omitted = field("omit"); !omitted.empty()) {
    Omit(omitted, std::string(field("assumption")));
  } else if (const auto integer = field("integer"); !integer.empty()) {
    if (!Integer(integer)) return false;
    SetInteger(key, integer);
  } else if (const auto number = field("number"); !number.empty()) {
    SetNumber(key, number);
  } else if (const auto option = field("switch"); !option.empty()) {
    Set(key, IsOn(option), option);
  } else if (const auto words = field("words"); !words.empty()) {
    const auto word = WordFor(words, Text(field("of")));
    if (!word) return false;
    Set(key, std::string(*word), field("of"));
  } else if (!key.empty()) {
    const std::string by = field("by").empty() ? "" : value_of(field("by")).Text();
    const std::string_view because = !by.empty() ? by : !on.empty() ? on : field("because");
    const std::string_view literal = field("value");
    Set(key, literal.empty() ? value_of(field("to")).Text() : std::string(literal), because,
        std::string(field("remark")));
  }
  if (const YamlNode* const all = scenario::Child(rule, "all")) {
    for (const auto& each : all->items) ApplyRule(*each);
  }
  if (const YamlNode* const first = scenario::Child(rule, "first")) {
    for (const auto& each : first->items) {
      if (ApplyRule(*each)) break;
    }
  }
  return true;
}

void Reading::Apply(const YamlNode& table, std::string_view section) {
  for (const auto& rule : scenario::Child(table, section)->items) ApplyRule(*rule);
}

}  // namespace stepcast::foreign
