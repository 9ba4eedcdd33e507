#include "src/foreign/framework.h"

#include <algorithm>
#include <cstddef>

#include "fmt/format.h"

namespace stepcast::foreign {
std::vector<std::string_view> SplitWords(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

std::vector<std::pair<std::string_view, std::string_view>> SplitPairs(std::string_view list) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const std::string_view word : SplitWords(list)) {
    const std::size_t sign = std::min(word.find('='), word.size());
    pairs.emplace_back(word.substr(0, sign), word.substr(std::min(sign + 1, word.size())));
  }
  return pairs;
}

namespace {

bool IsNeutral(const Option& option, const Value& value) {
  if (value.kind == Value::Kind::kNothing) return true;
  if (value.kind == Value::Kind::kList) return value.items.empty();
  if (value.text.empty()) return true;
  if (HasWord(option.neutral, value.text)) return true;
  if (const auto number = value.Number()) {
    if (HasWord(option.neutral, fmt::format("{:g}", *number))) return true;
  }
  const auto on = value.Boolean();
  return on && !value.Number() && HasWord(option.neutral, *on ? "true" : "false");
}

}  // namespace

std::vector<Option> OptionsIn(const scenario::YamlNode& table) {
  std::vector<Option> options;
  const auto add = [&options](std::string_view names, const Option& row) {
    for (const auto& [name, standard] : SplitPairs(names)) {
      Option& option = options.emplace_back(row);
      option.name = name;
      if (!standard.empty()) option.standard = standard;
    }
  };
  using Entries = std::vector<scenario::YamlNode::Entry>;
  const auto rows = [&table](std::string_view section) -> const Entries& {
    static const Entries kNone;
    const scenario::YamlNode* const found = scenario::Child(table, section);
    return found == nullptr ? kNone : found->entries;
  };
  add(TextAt(table, "rules"), {.effect = Effect::kRule});
  for (const auto& [names, position, row] : rows("sets")) {
    const std::string_view key = row->entries.empty() ? row->scalar : TextAt(*row, "key");
    add(names, {.key = key, .words = TextAt(*row, "words"), .standard = TextAt(*row, "default")});
  }
  for (const auto& [names, position, row] : rows("not_modelled")) {
    add(names, {.effect = Effect::kNotModelled,
                .neutral = TextAt(*row, "neutral"),
                .consequence = TextAt(*row, "assumption")});
  }
  add(TextAt(table, "no_effect"), {.effect = Effect::kNone});
  return options;
}

std::string ScenarioWords(const Value& value) {
  if (const auto number = value.Integer()) return fmt::format("{}", *number);
  if (const auto number = value.Number()) return fmt::format("{}", *number);
  if (const auto on = value.Boolean()) return *on ? "true" : "false";
  return value.text;
}

std::optional<std::string_view> WordFor(std::string_view words, std::string_view foreign) {
  for (const auto& [word, scenario_word] : SplitPairs(words)) {
    if (word == foreign) return scenario_word;
  }
  return std::nullopt;
}

namespace {

// Whether a row's name, which may end in a star, matches the option.
bool Covers(std::string_view row, std::string_view name) {
  if (!row.ends_with('*')) return row == name;
  const std::string_view above = row.substr(0, row.size() - 1);
  // "metrics.*" also matches "metrics".
  const bool itself = above.ends_with('.') && name == above.substr(0, above.size() - 1);
  return itself || name.starts_with(above);
}

}  // namespace

const Option* Reading::RowOf(std::string_view name) const {
  const Option* found = nullptr;
  for (const Option& option : options_) {
    if (option.name == name) return &option;
    if (found == nullptr && Covers(option.name, name)) found = &option;
  }
  return found;
}

void Reading::ReadRow(const Option& option, const Setting& setting) {
  const Value& value = setting.value;
  if (value.kind == Value::Kind::kExpression && option.effect != Effect::kNone) {
    return Omit(
        setting.name,
        option.key.empty()
            ? "stepcast cannot read the value, because the program computes the value"
            : fmt::format("the program computes the value of the setting; set the scenario key {}",
                          option.key));
  }
  switch (option.effect) {
    case Effect::kNone:
    case Effect::kRule:
      return;
    case Effect::kNotModelled:
      if (!value.unknown.empty() || !IsNeutral(option, value))
        Omit(setting.name, std::string(option.consequence));
      return;
    case Effect::kSets:
      break;
  }
  if (value.kind == Value::Kind::kNothing) return;
  if (!value.unknown.empty()) return AskFor(setting);
  if (option.words == "bool") {
    if (const auto on = value.Boolean()) {
      draft_.State(option.key, *on ? "true" : "false", setting.location);
    } else {
      Wrong(setting.name,
            fmt::format("{} must be true or false, not {}", Quoted(setting.name),
                        Quoted(value.Shown())),
            fmt::format("to set the value, add --set {}=true", option.key));
    }
    return;
  }
  if (!option.words.empty()) {
    const auto word = WordFor(option.words, value.text);
    if (!word) {
      Omit(setting.name, fmt::format("the scenario key {} has no equivalent value", option.key));
    } else if (!word->empty()) {
      draft_.State(option.key, std::string(*word), setting.location);
    }
    return;
  }
  draft_.State(option.key, ScenarioWords(value), setting.location);
}

void Reading::AskFor(const Setting& setting) const {
  draft_.AskForVariable(setting.value.unknown.front(), Quoted(setting.name), setting.location,
                        setting.value.known_words);
}

void Reading::ReadRows() {
  for (const Setting& setting : document_.settings) {
    if (document_.Find(setting.name) != &setting) continue;  // a later one holds
    if (const Option* option = RowOf(setting.name)) {
      ReadRow(*option, setting);
    } else if (setting.value.kind != Value::Kind::kNothing) {
      Omit(setting.name, "");
    }
  }
}

void Reading::ReadDefaults() {
  for (const Option& option : options_) {
    if (option.effect != Effect::kSets || option.standard.empty()) continue;
    if (document_.Find(option.name) != nullptr) continue;
    const Value standard = Value::Text(std::string(option.standard));
    std::string value = ScenarioWords(standard);
    if (!option.words.empty() && option.words != "bool") {
      value = WordFor(option.words, option.standard).value_or("");
    }
    if (!value.empty()) draft_.Assume(option.key, std::move(value), DefaultOrigin());
  }
}

bool Reading::HasRule(std::string_view name) const {
  const Option* row = RowOf(name);
  return row != nullptr && row->effect == Effect::kRule;
}

const Setting* Reading::Stated(std::string_view name) const {
  const Setting* setting = document_.Find(name);
  return setting == nullptr || setting->value.kind == Value::Kind::kNothing ? nullptr : setting;
}

std::optional<Value> Reading::Get(std::string_view name) const {
  if (const Setting* setting = document_.Find(name)) {
    if (setting->value.kind == Value::Kind::kNothing ||
        setting->value.kind == Value::Kind::kExpression) {
      return std::nullopt;
    }
    if (!setting->value.unknown.empty()) {
      AskFor(*setting);
      return std::nullopt;
    }
    return setting->value;
  }
  const Option* option = RowOf(name);
  if (option == nullptr || option->standard.empty()) return std::nullopt;
  return Value::Text(std::string(option->standard));
}

std::optional<std::int64_t> Reading::Integer(std::string_view name) const {
  const auto value = Get(name);
  return value ? value->Integer() : std::nullopt;
}

bool Reading::IsOn(std::string_view name) const {
  const auto value = Get(name);
  return value && value->Boolean().value_or(false);
}

std::string Reading::Text(std::string_view name) const {
  const auto value = Get(name);
  return value ? value->text : "";
}

void Reading::Set(std::string_view key, ScenarioValue value, std::string_view because_of,
                  std::string remark) {
  if (const Setting* setting = document_.Find(because_of)) {
    draft_.State(key, std::move(value), setting->location, std::move(remark));
  } else {
    std::string origin = DefaultOrigin();
    if (!remark.empty()) origin += ", " + remark;
    draft_.Assume(key, std::move(value), std::move(origin));
  }
}

void Reading::SetInteger(std::string_view key, std::string_view option) {
  if (const auto number = Integer(option)) Set(key, *number, option);
}

void Reading::SetNumber(std::string_view key, std::string_view option) {
  const auto value = Get(option);
  if (value && value->Number()) Set(key, ScenarioWords(*value), option);
}

void Reading::Omit(std::string_view name, std::string consequence) {
  const Setting* setting = document_.Find(name);
  if (setting == nullptr) return;
  const std::string_view written = setting->written.empty() ? name : setting->written;
  const std::string value =
      setting->written_value.empty() ? setting->value.Shown() : setting->written_value;
  draft_.Omit(setting->location, fmt::format("{} = {}", written, value), std::move(consequence));
}

void Reading::Wrong(std::string_view name, std::string message, std::string hint) {
  const Setting* setting = document_.Find(name);
  const Location location = setting == nullptr ? Location{document_.file, 0, 0} : setting->location;
  draft_.Report({"foreign.value", location, std::move(message), std::move(hint)});
}

std::string Reading::DefaultOrigin() const {
  return fmt::format("{}{} default at {}", framework_.name,
                     framework_.name.ends_with('s') ? "'" : "'s", framework_.release);
}

}  // namespace stepcast::foreign
