#include <cmath>

#include "fmt/format.h"
#include "src/formats/huggingface.h"

namespace stepcast::formats {

using Kind = JsonValue::Kind;

HuggingFaceReader::HuggingFaceReader(const JsonObject& config, std::string_view section,
                                     Diagnostics& mistakes, std::vector<std::string>& warnings)
    : config_(config),
      section_(section),
      prefix_(section.empty() ? "" : fmt::format("{}.", section)),
      mistakes_(mistakes),
      mistakes_before_(mistakes.size()),
      warnings_(warnings) {}

const JsonValue* HuggingFaceReader::Find(const std::string& path) {
  asked_for_.insert(path);
  const JsonValue* value = config_.Find(PathOf(path));
  return value == nullptr || value->kind == Kind::kNull ? nullptr : value;
}

bool HuggingFaceReader::Has(const std::string& path) const {
  return config_.Find(PathOf(path)) != nullptr;
}

std::optional<std::int64_t> HuggingFaceReader::OptionalDimension(const std::string& path) {
  const JsonValue* value = Find(path);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::kInteger) {
    Report(path, "input.not-an-integer", "needs an integer", *value);
    return std::nullopt;
  }
  if (value->integer < 1 || value->integer > kMostDimension) {
    Report(path, "input.out-of-range", fmt::format("must be between 1 and {}", kMostDimension),
           *value);
    return std::nullopt;
  }
  return value->integer;
}

std::int64_t HuggingFaceReader::OptionalDimensionOrZero(const std::string& path) {
  const JsonValue* value = Find(path);
  if (value != nullptr && value->kind == Kind::kInteger && value->integer == 0) return 0;
  return OptionalDimension(path).value_or(0);
}

std::int64_t HuggingFaceReader::Dimension(const std::string& path) {
  if (Find(path) == nullptr) {
    mistakes_.push_back({"input.missing-key", location(),
                         fmt::format("missing key: {}", Quoted(PathOf(path))),
                         "add the key: this model_type requires it"});
    return 1;
  }
  return OptionalDimension(path).value_or(1);
}

bool HuggingFaceReader::Boolean(const std::string& path, bool absent) {
  const JsonValue* value = Find(path);
  if (value == nullptr) return absent;
  if (value->kind != Kind::kBoolean) {
    Report(path, "input.not-a-boolean", "needs true or false", *value);
    return absent;
  }
  return value->boolean;
}

double HuggingFaceReader::Number(const std::string& path, double absent) {
  const JsonValue* value = Find(path);
  if (value == nullptr) return absent;
  const bool number = value->kind == Kind::kNumber || value->kind == Kind::kInteger;
  if (!number || !std::isfinite(value->number) || value->number < 0) {
    Report(path, "input.not-a-number", "needs a number of at least zero", *value);
    return absent;
  }
  return value->number;
}

std::string HuggingFaceReader::Text(const std::string& path, std::string absent) {
  const JsonValue* value = Find(path);
  if (value == nullptr) return absent;
  if (value->kind != Kind::kText) {
    Report(path, "input.wrong-kind", "needs text", *value);
    return absent;
  }
  return value->text;
}

std::optional<std::vector<std::string>> HuggingFaceReader::Texts(const std::string& path) {
  const JsonValue* value = Find(path);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  for (std::int64_t i = 0; value->kind == Kind::kArray && i < value->elements; ++i) {
    const JsonValue* text = config_.Find(fmt::format("{}.{}", PathOf(path), i));
    if (text == nullptr || text->kind != Kind::kText) break;
    texts.push_back(text->text);
  }
  if (value->kind != Kind::kArray || std::ssize(texts) != value->elements) {
    Report(path, "input.wrong-kind", "needs an array of strings", *value);
    return std::nullopt;
  }
  return texts;
}

void HuggingFaceReader::Refuse(const std::string& path, std::string_view why, std::string hint) {
  const JsonValue* value = Find(path);
  mistakes_.push_back({"model.not-modelled", value == nullptr ? location() : value->location,
                       fmt::format("{}: {} is {}", why, Quoted(PathOf(path)),
                                   value == nullptr ? "absent" : value->Described()),
                       std::move(hint)});
}

void HuggingFaceReader::Warn(const std::string& path, std::string_view what) {
  const JsonValue* value = Find(path);
  warnings_.push_back(fmt::format("model: {} is {}: {}", Quoted(PathOf(path)),
                                  value == nullptr ? "absent" : value->Described(), what));
}

std::vector<std::pair<std::string, const JsonValue*>> HuggingFaceReader::Others() const {
  std::vector<std::pair<std::string, const JsonValue*>> others;
  // Whether a value of this object was requested: a path that begins with "rope_scaling.".
  const auto opened = [this](const std::string& path) {
    const std::string inside = path + ".";
    const auto first = asked_for_.lower_bound(inside);
    return first != asked_for_.end() && first->starts_with(inside);
  };
  for (const auto& [whole, value] : config_.values()) {
    if (!whole.starts_with(prefix_) || whole == section_) continue;
    const std::string path = whole.substr(prefix_.size());
    if (asked_for_.contains(path) || (value.kind == Kind::kObject && opened(path))) continue;
    const std::size_t dot = path.rfind('.');
    const JsonValue* outer =
        dot == std::string::npos ? nullptr : config_.Find(PathOf(path.substr(0, dot)));
    // The content of an array or of an unused object is judged together with it.
    if (outer != nullptr && (outer->kind != Kind::kObject || !opened(path.substr(0, dot)))) {
      continue;
    }
    others.emplace_back(path, &value);
  }
  return others;
}

std::vector<std::string_view> HuggingFaceReader::KeysAskedFor() const {
  std::vector<std::string_view> keys;
  for (const std::string& path : asked_for_) {
    if (path.find('.') == std::string::npos) keys.push_back(path);
  }
  return keys;
}

Location HuggingFaceReader::location() const {
  const JsonValue* section = section_.empty() ? nullptr : config_.Find(section_);
  return section == nullptr ? config_.location() : section->location;
}

void HuggingFaceReader::Report(const std::string& path, std::string code, std::string_view need,
                               const JsonValue& value) {
  mistakes_.push_back({std::move(code), value.location,
                       fmt::format("{} {}: {}", Quoted(PathOf(path)), need, value.Described()),
                       ""});
}

}  // namespace stepcast::formats
