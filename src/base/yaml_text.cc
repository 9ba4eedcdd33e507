#include "src/base/yaml_text.h"

#include <algorithm>
#include <cstddef>

#include "src/base/printable.h"
#include "src/base/utf8.h"

namespace stepcast {

std::string YamlQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = std::max<std::size_t>(utf8::SequenceLength(text.substr(i, 4)), 1);
    const std::string_view character = text.substr(i, length);
    i += length;
    if (character == "\n") {
      quoted += "\\n";
    } else if (character == "\t") {
      quoted += "\\t";
    } else if (character == "\r") {
      quoted += "\\r";
    } else {
      for (const char c : Printable(character)) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
      }
    }
  }
  return quoted + '"';
}

std::string YamlScalar(std::string_view text) {
  return IsPlainYaml(text) ? std::string(text) : YamlQuoted(text);
}

bool IsPlainYaml(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (text.empty() || text == "null" || text == "Null" || text == "NULL") return false;
  // "- a" is an item, "---" and "..." part documents; "-1" and "./a" are neither.
  const bool number = text.front() == '-' && text.find_first_of(kLetters) == 1;
  const bool first = kLetters.find(text.front()) != std::string_view::npos || number ||
                     text.front() == '.' || text.front() == '/' || text.front() == '_';
  const bool others = std::all_of(text.begin(), text.end(), [&](char c) {
    return kLetters.find(c) != std::string_view::npos ||
           std::string_view("_-./+ ").find(c) != std::string_view::npos;
  });
  return first && others && text.back() != ' ' && !text.starts_with("...");
}

}  // namespace stepcast
