#include "src/scenario/config_keys.h"

#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "src/scenario/document.h"
#include "src/scenario/family_file.h"
#include "src/scenario/yaml_tree.h"

namespace stepcast::scenario {
namespace {

using formats::HuggingFaceReader;
using formats::JsonValue;
using JsonKind = JsonValue::Kind;

// What keys.yaml states of a key. `section` is its section of the file.
struct KeyEffect {
  std::string_view section, said, of;
  double neutral = 0;  // a neutral value other than 0
};

class KeysFile {
 public:
  KeysFile() : file_(ReadDocument(FamilyPath("keys"), mistakes_)) {
    if (!file_) return;
    for (const YamlNode::Entry& section : file_->tree()->entries) {
      for (const YamlTree& group : section.value->items) {
        const YamlNode* keys = Child(*group, "keys");
        KeyEffect effect{section.key, Text(*group, "said"), Text(*group, "of")};
        const std::string_view neutral = Text(*group, "neutral");
        std::from_chars(neutral.data(), neutral.data() + neutral.size(), effect.neutral);
        for (const YamlTree& key : (keys == nullptr ? *group : *keys).items) {
          effects_.emplace(key->scalar, effect);
        }
      }
    }
  }

  const std::map<std::string, KeyEffect, std::less<>>& effects() const { return effects_; }

 private:
  static std::string_view Text(const YamlNode& group, std::string_view key) {
    const YamlNode* node = Child(group, key);
    return node == nullptr ? "" : std::string_view(node->scalar);
  }

  Diagnostics mistakes_;
  std::optional<Node> file_;
  std::map<std::string, KeyEffect, std::less<>> effects_;
};

// Whether the layers are the same as without the key.
bool IsNeutral(const JsonValue& value, double neutral) {
  switch (value.kind) {
    case JsonKind::kNull:
      return true;
    case JsonKind::kBoolean:
      return !value.boolean;
    case JsonKind::kInteger:
    case JsonKind::kNumber:
      return value.number == 0 || value.number == neutral;
    case JsonKind::kText:
      return value.text.empty();
    case JsonKind::kArray:
    case JsonKind::kObject:
      return value.elements == 0;
  }
  return false;
}

// Whether the value disables the key, the only check for a key of unknown meaning.
bool IsSwitchedOff(const JsonValue& value) {
  return value.kind == JsonKind::kNull || (value.kind == JsonKind::kBoolean && !value.boolean);
}

void WarnOfUnknown(HuggingFaceReader& reader, const std::string& path) {
  std::string said = "the forecast ignores this key, because it is unknown";
  const std::string_view nearest = NearestWord(path, reader.KeysAskedFor());
  if (!nearest.empty()) said += fmt::format("; did you mean {}?", Quoted(nearest));
  reader.Warn(path, said);
}

}  // namespace

void AcceptHeadNorms(HuggingFaceReader& reader) {
  const KeysFile file;
  for (const auto& [key, effect] : file.effects()) {
    if (effect.of == "head_norms") reader.Accept(key);
  }
}

void JudgeOtherKeys(HuggingFaceReader& reader, UnknownConfigKeys unknown) {
  const KeysFile file;
  for (const auto& [path, value] : reader.Others()) {
    const std::string_view key = std::string_view(path).substr(path.rfind('.') + 1);
    if (key.ends_with("_token_id") || key.ends_with("_token_ids") ||
        key.ends_with("_token_index")) {
      continue;
    }
    const auto known = file.effects().find(key);
    if (known == file.effects().end()) {
      if (unknown == UnknownConfigKeys::kWarnOf && !IsSwitchedOff(*value))
        WarnOfUnknown(reader, path);
      continue;
    }
    const KeyEffect& effect = known->second;
    if (effect.section == "without_effect" || IsNeutral(*value, effect.neutral)) continue;
    if (effect.section == "warned") {
      reader.Warn(path, effect.said);
    } else if (effect.section == "not_modelled") {
      reader.Refuse(path, effect.said, formats::kTakeTheKeyOut);
    } else {
      reader.Refuse(path, effect.said);
    }
  }
}

}  // namespace stepcast::scenario
