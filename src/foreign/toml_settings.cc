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

// Where a character beyond ASCII stands outside of strings and comments, which is no TOML; nothing:
// nowhere. The library takes some of them for what cannot be (is_non_ascii_horizontal_whitespace of
// 3.3: U+3001 to U+3257), and goes on from there as it happens to.
std::optional<Location> BeyondAscii(std::string_view text, const std::string& file) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of the byte order, at the beginning
  int line = 1, column = 1;
  std::string_view closing;  // of the string or comment that is open
  for (std::size_t at = text.starts_with(kMark) ? kMark.size() : 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    std::size_t length = 1;
    if (!closing.empty()) {
      if (rest.starts_with(closing) || (closing.size() == 1 && rest.front() == '\n')) {
        length = rest.front() == '\n' ? 1 : closing.size();
        closing = {};
      } else if (closing.front() == '"' && rest.front() == '\\' && rest.size() > 1) {
        length = 2;
      }
    } else if (static_cast<unsigned char>(rest.front()) >= 0x80) {
      return Location{file, line, column};
    } else if (rest.front() == '#') {
      closing = "\n";
    } else {
      for (const std::string_view quote : {"\"\"\"", "'''", "\"", "'"}) {
        if (!rest.starts_with(quote)) continue;
        closing = quote;
        length = quote.size();
        break;
      }
    }
    for (const char c : rest.substr(0, length)) {
      ++column;
      if (c != '\n') continue;
      ++line;
      column = 1;
    }
    at += length;
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
  if (const auto beyond = BeyondAscii(text, file)) {
    return tl::make_unexpected(
        Diagnostics{{"foreign.syntax", *beyond,
                     "not well-formed TOML: characters beyond ASCII stand in strings and comments",
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
