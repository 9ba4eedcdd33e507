#include "src/foreign/variables.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace stepcast::foreign {
namespace {

// What OmegaConf's functions give that NeMo's files use: a product, of numbers alone.
std::optional<std::string> Product(std::string_view call) {
  constexpr std::string_view kMultiply = "multiply:";
  if (!call.starts_with(kMultiply)) return std::nullopt;
  std::string list(call.substr(kMultiply.size()));
  std::int64_t product = 1;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string factor = list.substr(at, end - at);
    std::erase(factor, ' ');
    const auto number = Value::Text(factor).Integer();
    if (!number || __builtin_mul_overflow(product, *number, &product)) return std::nullopt;
    at = end + 1;
  }
  return std::to_string(product);
}

// The place of the bracket that closes "${" at `at`, over others within.
std::size_t Closing(const std::string& text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at;
  }
  return text.size();
}

// The text with what is known replaced; names of what is not are added to `unknown`.
// `section`: the keys beside which the text stands, "model." of "model.ffn_hidden_size"; `room`: for
// so many characters of the document's own values, which may double one another.
std::string Replaced(const std::string& text, const Document& document, const std::string& section,
                     const std::map<std::string, std::string>& given, int depth, std::size_t& room,
                     std::vector<std::string>& unknown) {
  constexpr int kDeepest = 8;
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
      end = Closing(text, begin - 1);
    } else {
      while (end < text.size() && IsNameCharacter(text[end])) ++end;
    }
    std::string name = text.substr(begin, end - begin);
    if (name.find("${") != std::string::npos && depth < kDeepest) {
      name = Replaced(name, document, section, given, depth + 1, room, unknown);
    }
    if (name.starts_with('.')) name = section + name.substr(1);
    at = end + (braces && end < text.size() ? 1 : 0);
    if (const auto value = given.find(name); value != given.end()) {
      replaced += value->second;
      continue;
    }
    // `${NAME:otherwise}`, as Primus writes it.
    const std::size_t colon = name.find(':');
    const bool of_surroundings =
        colon != std::string::npos && colon > 0 &&
        std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(colon), [](char c) {
          return IsNameCharacter(c) && std::islower(static_cast<unsigned char>(c)) == 0;
        });
    if (of_surroundings) {
      const auto value = given.find(name.substr(0, colon));
      replaced += value == given.end() ? name.substr(colon + 1) : value->second;
      continue;
    }
    if (auto product = Product(name)) {
      replaced += *product;
      continue;
    }
    const Setting* own = document.Find(name);
    // What is not known of another value is not known of this one.
    if (own != nullptr && !own->value.unknown.empty()) {
      unknown.push_back(own->value.unknown.front());
      continue;
    }
    const bool known = own != nullptr && own->value.text.find('$') == std::string::npos;
    if (known && own->value.text.size() <= room) {
      room -= own->value.text.size();
      replaced += own->value.text;
    } else {
      unknown.push_back(name);
    }
  }
  return replaced;
}

}  // namespace

void ReplaceVariables(Document& document, const std::map<std::string, std::string>& given) {
  std::size_t room = 1'000'000;
  for (Setting& setting : document.settings) {
    Value& value = setting.value;
    if (value.text.find('$') == std::string::npos) continue;
    const std::string section = setting.name.substr(0, setting.name.rfind('.') + 1);
    value.text = Replaced(value.text, document, section, given, 0, room, value.unknown);
  }
}

}  // namespace stepcast::foreign
