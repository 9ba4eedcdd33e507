#include "src/foreign/toml_settings.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#define TOML_EXCEPTIONS 0
#include "toml++/toml.h"

namespace stepcast::foreign {
namespace {

std::string TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  std::ostringstream written;
  if (const auto* number = node.as_integer()) {
    written << number->get();
  } else if (const auto* on = node.as_boolean()) {
    written << (on->get() ? "true" : "false");
  } else {
    node.visit([&written](const auto& value) { written << value; });
  }
  return written.str();
}

void Flatten(const toml::node& node, const std::string& name, const std::string& file,
             Document& document) {
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      const std::string below(key.str());
      Flatten(value, name.empty() ? below : name + "." + below, file, document);
    }
    return;
  }
  const toml::source_position at = node.source().begin;
  Setting setting{name, {}, {file, static_cast<int>(at.line), static_cast<int>(at.column)}};
  if (const toml::array* array = node.as_array()) {
    setting.value.kind = Value::Kind::kList;
    for (const toml::node& item : *array) setting.value.items.push_back(TextOf(item));
  } else {
    setting.value = Value::Text(TextOf(node));
  }
  document.settings.push_back(std::move(setting));
}

// Where a key has more parts than any configuration; toml++ would nest tables as deep, on its
// stack. Nothing: nowhere.
std::optional<Location> TooDeep(std::string_view text, const std::string& file) {
  constexpr int kDeepest = 200;
  int line = 1, dots = 0;
  char before = '\n';
  for (const char c : text) {
    if (c == '\n') ++line;
    if (c == '.' && before != '.') ++dots;
    if (c == '\n' || c == '=' || c == ',' || c == '#') dots = 0;
    if (dots > kDeepest) return Location{file, line, 0};
    before = c;
  }
  return std::nullopt;
}

}  // namespace

Result<Document> ParseToml(std::string_view text, const std::string& file) {
  if (const auto deep = TooDeep(text, file)) {
    return tl::make_unexpected(
        Diagnostics{{"foreign.syntax", *deep, "not well-formed TOML: a line has more than 200 dots",
                     "mend the line; TOML is described at toml.io"}});
  }
  const toml::parse_result parsed = toml::parse(text, file);
  if (parsed.failed()) {
    const toml::parse_error& error = parsed.error();
    const toml::source_position at = error.source().begin;
    return tl::make_unexpected(
        Diagnostics{{"foreign.syntax",
                     {file, static_cast<int>(at.line), static_cast<int>(at.column)},
                     "not well-formed TOML: " + Quoted(error.description(), "", 200),
                     "mend the line; TOML is described at toml.io"}});
  }
  Document document{.file = file};
  Flatten(parsed.table(), "", file, document);
  std::stable_sort(document.settings.begin(), document.settings.end(),
                   [](const Setting& a, const Setting& b) {
                     return std::pair(a.location.line, a.location.column) <
                            std::pair(b.location.line, b.location.column);
                   });
  return document;
}

}  // namespace stepcast::foreign
