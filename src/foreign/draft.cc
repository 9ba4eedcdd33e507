#include "src/foreign/draft.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/printable.h"
#include "src/foreign/setting.h"

namespace stepcast::foreign {
namespace {

// Whether `key` equals `above` or is below it.
bool IsWithin(std::string_view key, std::string_view above) {
  return key.starts_with(above) && (key.size() == above.size() || key[above.size()] == '.');
}

}  // namespace

void Draft::State(std::string_view key, ScenarioValue value, const Location& location,
                  std::string remark) {
  if (Overridden(key)) return;
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [key](const Entry& entry) { return entry.key == key; });
  std::string origin = Origin(location);
  if (!remark.empty()) origin += ", " + remark;
  Entry entry{std::string(key), std::move(value), std::move(origin), location};
  if (known == entries_.end()) {
    entries_.push_back(std::move(entry));
    return;
  }
  if (known->location.file.empty()) {
    *known = std::move(entry);
    return;
  }
  if (known->value == entry.value) return;
  Report({"foreign.conflict", location,
          fmt::format("{} is {} here, but {} in {}", Quoted(key), entry.value.text,
                      known->value.text, known->origin),
          fmt::format("choose one of the two values: --set {}={}", key, entry.value.text)});
}

void Draft::Assume(std::string_view key, ScenarioValue value, std::string origin) {
  if (Find(key) != nullptr || Overridden(key)) return;
  entries_.push_back({std::string(key), std::move(value), std::move(origin), Location{}});
}

void Draft::Override(std::string_view key, ScenarioValue value, const std::string& option) {
  TakeOut(key);
  entries_.push_back({std::string(key), std::move(value), option.substr(0, option.find(' ')),
                      Location{option, 0, 0}});
}

void Draft::TakeOut(std::string_view key) {
  Remove(key);
  overridden_.emplace_back(key);
}

void Draft::Report(Diagnostic mistake) {
  mistake.message = Printable(mistake.message);
  mistake.hint = Printable(mistake.hint);
  mistakes_.push_back(std::move(mistake));
}

void Draft::Omit(Location location, std::string option, std::string consequence) {
  omissions_.push_back({std::move(location), Printable(option), std::move(consequence)});
}

void Draft::Note(std::string_view sentence) { notes_.push_back(Printable(sentence)); }

void Draft::AskForVariable(const std::string& name, const std::string& subject,
                           const Location& location, const std::vector<std::string>& words) {
  if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) return;
  asked_.push_back(name);
  const bool argument = name.find_first_not_of("0123456789") == std::string::npos;
  std::string hint = fmt::format("give the value: --variable {}={}", name,
                                 words.empty() ? "VALUE" : words.front());
  const auto set_by = set_by_.find(name);
  const bool by_loop = set_by != set_by_.end() && set_by->second == "a loop";
  if (words.size() > 1) {
    hint += fmt::format("; the script {} {}", by_loop ? "sets it to" : "compares it with",
                        fmt::join(words, ", "));
  }
  const std::string what =
      argument ? fmt::format("argument {} of the script", name)
      : set_by != set_by_.end()
          ? fmt::format("a variable that {} of the script sets, which stepcast does not follow: {}",
                        set_by->second, Quoted(name))
          : fmt::format("a variable that the file does not set: {}", Quoted(name));
  Report({"foreign.missing", location, fmt::format("{} depends on {}", subject, what),
          std::move(hint)});
}

const Entry* Draft::Find(std::string_view key) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [key](const Entry& entry) { return entry.key == key; });
  return found == entries_.end() ? nullptr : &*found;
}

bool Draft::Has(std::string_view key) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [key](const Entry& entry) { return IsWithin(entry.key, key); });
}

bool Draft::Covers(std::string_view key) const {
  return Has(key) || std::any_of(entries_.begin(), entries_.end(),
                                 [key](const Entry& entry) { return IsWithin(key, entry.key); });
}

std::optional<std::int64_t> Draft::Integer(std::string_view key) const {
  const Entry* entry = Find(key);
  return entry == nullptr ? std::nullopt : Value::Text(entry->value.text).Integer();
}

void Draft::Remove(std::string_view key) {
  std::erase_if(entries_, [key](const Entry& entry) { return IsWithin(entry.key, key); });
}

bool Draft::Overridden(std::string_view key) const {
  return std::any_of(overridden_.begin(), overridden_.end(),
                     [key](const std::string& above) { return IsWithin(key, above); });
}

}  // namespace stepcast::foreign
