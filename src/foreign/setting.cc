#include "src/foreign/setting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace stepcast::foreign {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::optional<double> Value::Number() const {
  if (kind != Kind::kText || !unknown.empty()) return std::nullopt;
  std::string digits = text;
  std::erase(digits, '_');
  double number = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (digits.empty() || read.ec != std::errc() || read.ptr != end || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> Value::Integer() const {
  const std::optional<double> number = Number();
  constexpr double kMost = 1e15;  // integers up to it are exact
  if (!number || std::floor(*number) != *number || std::abs(*number) > kMost) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<bool> Value::Boolean() const {
  if (kind != Kind::kText || !unknown.empty()) return std::nullopt;
  const std::string word = Lower(text);
  if (IsOneOf(word, {"true", "yes", "on", "1"})) return true;
  if (IsOneOf(word, {"false", "no", "off", "0"})) return false;
  return std::nullopt;
}

std::vector<std::string> Value::Words() const {
  if (kind == Kind::kList) return items;
  std::vector<std::string> words;
  if (kind != Kind::kText) return words;
  constexpr std::string_view kBetween = " \t,";
  for (std::size_t at = 0; (at = text.find_first_not_of(kBetween, at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string Value::Shown() const {
  constexpr std::size_t kLongest = 60;
  if (!unknown.empty()) return "$" + unknown.front();
  switch (kind) {
    case Kind::kNothing:
      return "null";
    case Kind::kList:
      return Quoted(fmt::format("[{}]", fmt::join(items, ", ")), "", kLongest);
    case Kind::kText:
    case Kind::kExpression:
      break;
  }
  return text.empty() ? "\"\"" : Quoted(text, "", kLongest);
}

bool Document::HasRoomFor(std::string_view name, const Location& location) {
  if (!too_large && (settings.size() >= kMostSettings || name.size() > kLongestName)) {
    too_large = location;
  }
  return !too_large;
}

const Setting* Document::Find(std::string_view name) const {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [name](const Setting& setting) { return setting.name == name; });
  return found == settings.rend() ? nullptr : &*found;
}

bool Document::Has(std::string_view name) const {
  return std::any_of(settings.begin(), settings.end(), [name](const Setting& setting) {
    return setting.name.starts_with(name) &&
           (setting.name.size() == name.size() || setting.name[name.size()] == '.');
  });
}

std::string Origin(const Location& location) {
  return location.line > 0 ? fmt::format("{}:{}", location.file, location.line) : location.file;
}

}  // namespace stepcast::foreign
