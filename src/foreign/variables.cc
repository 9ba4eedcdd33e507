#include "src/foreign/variables.h"

#include <cctype>
#include <cstddef>
#include <vector>

namespace stepcast::foreign {
namespace {

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The text with what is known replaced; names of what is not are added to `unknown`.
std::string Replaced(const std::string& text, const Document& document,
                     const std::map<std::string, std::string>& given,
                     std::vector<std::string>& unknown) {
  std::string replaced;
  for (std::size_t at = 0; at < text.size();) {
    const bool braces = text.compare(at, 2, "${") == 0;
    std::size_t end = at + (braces ? 2 : 1);
    if (text[at] != '$' || (!braces && (end >= text.size() || !IsNameCharacter(text[end])))) {
      replaced += text[at++];
      continue;
    }
    const std::size_t begin = end;
    if (braces) {
      end = text.find('}', begin);
      if (end == std::string::npos) end = text.size();
    } else {
      while (end < text.size() && IsNameCharacter(text[end])) ++end;
    }
    const std::string name = text.substr(begin, end - begin);
    at = end + (braces && end < text.size() ? 1 : 0);
    if (const auto value = given.find(name); value != given.end()) {
      replaced += value->second;
      continue;
    }
    const Setting* own = document.Find(name);
    if (own != nullptr && own->value.text.find('$') == std::string::npos) {
      replaced += own->value.text;
    } else {
      unknown.push_back(name);
    }
  }
  return replaced;
}

}  // namespace

void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given) {
  for (Setting& setting : document.settings) {
    Value& value = setting.value;
    if (value.text.find('$') == std::string::npos) continue;
    value.text = Replaced(value.text, document, given, value.unknown);
  }
}

}  // namespace stepcast::foreign
