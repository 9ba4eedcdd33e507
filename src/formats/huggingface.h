#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/formats/json_tree.h"
#include "src/model/architecture.h"
#include "src/model/numerical_constants.h"

namespace stepcast::formats {

// Reads the common parts of the config.json files of Hugging Face models: values with their
// positions, keys without effect, attention windows, and rotary positions. Accepts the spelling of
// transformers 4 and 5. A file per model family defines the other keys (scenario/family_config.h).
// Unknown keys cause a warning or an error.

// The hint if a model's layers have a feature that model files do not support.
inline constexpr const char* kTakeTheKeyOut =
    "remove the key if the model does not use this feature; stepcast cannot forecast models with "
    "the feature";

// Reads the values of a config.json by path, and records which values were requested, so that the
// other keys can be checked. A null value is treated as missing, as in transformers. Paths such as
// "rope_scaling.factor" are relative to `section`.
class HuggingFaceReader {
 public:
  static constexpr std::int64_t kMostDimension = 1'000'000'000'000;

  // `section` is the object to read, such as "text_config", or empty for the complete document.
  // `config`, `mistakes` and `warnings` must outlive the reader.
  HuggingFaceReader(const JsonObject& config, std::string_view section, Diagnostics& mistakes,
                    std::vector<std::string>& warnings);

  const JsonValue* Find(const std::string& path);
  // Returns whether the file contains the key, even with the value null.
  bool Has(const std::string& path) const;
  // Returns a dimension, or none if the key is missing or invalid. Reports an invalid value.
  std::optional<std::int64_t> OptionalDimension(const std::string& path);
  // Returns a dimension, or 0 (no such part in the model) if the key is missing or 0.
  std::int64_t OptionalDimensionOrZero(const std::string& path);
  // Returns a dimension. If the key is missing or invalid, reports a mistake and returns 1.
  std::int64_t Dimension(const std::string& path);
  bool Boolean(const std::string& path, bool absent);
  double Number(const std::string& path, double absent);  // at least 0
  std::string Text(const std::string& path, std::string absent);
  // Returns the strings of an array, and reports other elements. None if the array is missing.
  std::optional<std::vector<std::string>> Texts(const std::string& path);
  // Marks a key without effect as requested.
  void Accept(const std::string& path) { Find(path); }

  // Reports a mistake: the forecast does not support this kind of model.
  void Refuse(const std::string& path, std::string_view why,
              std::string hint = "describe the model in a model file; see docs/formats.md");
  // Adds a warning about a value that the forecast ignores. `what` is the forecast's assumption.
  void Warn(const std::string& path, std::string_view what);

  // Returns the section's values that were not requested, by path. Skips the content of an object
  // if no value of the object was requested.
  std::vector<std::pair<std::string, const JsonValue*>> Others() const;
  // Returns the requested keys of the section, without nested keys.
  std::vector<std::string_view> KeysAskedFor() const;
  // Returns whether this reader has reported a mistake. If true, dimensions may be placeholders.
  bool failed() const { return mistakes_.size() > mistakes_before_; }
  // Returns the position of the section.
  Location location() const;

 private:
  void Report(const std::string& path, std::string code, std::string_view need,
              const JsonValue& value);
  std::string PathOf(const std::string& path) const { return prefix_ + path; }

  const JsonObject& config_;
  const std::string section_;
  const std::string prefix_;  // prefix of paths in the section: "text_config." or empty
  Diagnostics& mistakes_;
  const std::size_t mistakes_before_;
  std::vector<std::string>& warnings_;
  std::set<std::string> asked_for_;  // requested paths in the section
};

// Adds a warning if the activation of gated layers is not SiLU, because the forecast assumes
// SwiGLU.
void ReadGate(HuggingFaceReader& reader);

// Defines which layers have attention windows if the file has no `layer_types`: all layers from
// `first_layer` on, or all layers except every `full_every`-th layer. `key` is the config.json key
// that sets the rule. If `tokens` is 0, no layer has a window.
struct WindowRule {
  std::int64_t tokens = 0;
  std::int64_t first_layer = 0;
  std::string key;
  std::int64_t full_every = 0;  // 0: no layer with full attention
};
struct AttentionWindow {
  std::int64_t tokens = 0, full_every = 0;
};
AttentionWindow ReadWindow(HuggingFaceReader& reader, std::int64_t layers, const WindowRule& rule);
// Reports a mistake if the file has a window, for model classes without attention windows.
void RefuseWindow(HuggingFaceReader& reader, std::int64_t layers);

// Returns the epsilon of norms and the rotary positions of the model. The defaults are the same as
// in transformers: 1e-5 for layer norms, 1e-6 for RMS norms, and a base of 10,000.
model::NumericalConstants ReadConstants(const model::Architecture& architecture,
                                        HuggingFaceReader& reader);

}  // namespace stepcast::formats
