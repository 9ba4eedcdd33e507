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

// Reads the common parts of the config.json files of Hugging Face model repositories: typed values
// with their positions, keys that change nothing, windows of attention, rotary positions. The
// spelling is that of transformers 4 or 5. A family's file says how to read the other keys
// (scenario/family_config.h). Any key that is not followed causes a warning or an error.

// The hint for layers that no model file can describe.
inline constexpr const char* kTakeTheKeyOut =
    "remove the key if the model does not have this feature; model files cannot describe it either";

// Reads the values of a config.json by path and records which were requested, so that the other
// keys can be judged. A null value counts as absent, as in transformers. Paths are relative to
// `section`: "rope_scaling.factor".
class HuggingFaceReader {
 public:
  static constexpr std::int64_t kMostDimension = 1'000'000'000'000;

  // `section`: the object to read, "text_config"; empty: the whole document. `config`, `mistakes`
  // and `warnings` must outlive the reader.
  HuggingFaceReader(const JsonObject& config, std::string_view section, Diagnostics& mistakes,
                    std::vector<std::string>& warnings);

  const JsonValue* Find(const std::string& path);
  // Whether the file contains the key, even as null.
  bool Has(const std::string& path) const;
  // Reports a value below 1 and returns nothing.
  std::optional<std::int64_t> OptionalDimension(const std::string& path);
  // 0 means that there is none, as if the key were missing.
  std::int64_t OptionalDimensionOrZero(const std::string& path);
  // Reports a missing or wrong value and returns 1.
  std::int64_t Dimension(const std::string& path);
  bool Boolean(const std::string& path, bool absent);
  double Number(const std::string& path, double absent);  // not negative
  std::string Text(const std::string& path, std::string absent);
  // The strings of an array; other elements are reported. Nothing if there is no such array.
  std::optional<std::vector<std::string>> Texts(const std::string& path);
  // Marks the key as requested; its value does not matter.
  void Accept(const std::string& path) { Find(path); }

  // Reports a variant that is not modelled.
  void Refuse(const std::string& path, std::string_view why,
              std::string hint = "describe the model in a model file; see docs/formats.md");
  // Warns how the forecast treats a value that it does not follow.
  void Warn(const std::string& path, std::string_view what);

  // The values that were not requested, by path: those of the section, and of its objects from
  // which some value was requested.
  std::vector<std::pair<std::string, const JsonValue*>> Others() const;
  // The keys of the section itself that were requested.
  std::vector<std::string_view> KeysAskedFor() const;
  // Whether a mistake was reported since this reader was made, so dimensions may be placeholders.
  bool failed() const { return mistakes_.size() > mistakes_before_; }
  // The position of the section.
  Location location() const;

 private:
  void Report(const std::string& path, std::string code, std::string_view need,
              const JsonValue& value);
  std::string PathOf(const std::string& path) const { return prefix_ + path; }

  const JsonObject& config_;
  const std::string section_;
  const std::string prefix_;  // of paths in the section: "text_config.", or empty
  Diagnostics& mistakes_;
  const std::size_t mistakes_before_;
  std::vector<std::string>& warnings_;
  std::set<std::string> asked_for_;  // paths in the section
};

// Warns of a gating function other than SiLU: products and bytes are those of SwiGLU.
void ReadGate(HuggingFaceReader& reader);

// A window in all layers from `first_layer` on, which comes from `key`, or in all but every
// `full_every`-th. `layer_types`, if the file has it, takes precedence. tokens = 0: no window.
struct WindowRule {
  std::int64_t tokens = 0;
  std::int64_t first_layer = 0;
  std::string key;
  std::int64_t full_every = 0;  // 0: no such layers
};
struct AttentionWindow {
  std::int64_t tokens = 0, full_every = 0;
};
AttentionWindow ReadWindow(HuggingFaceReader& reader, std::int64_t layers, const WindowRule& rule);
// For classes without a window: refuses a file that states one.
void RefuseWindow(HuggingFaceReader& reader, std::int64_t layers);

// The epsilon of norms and the rotary positions of the model. Defaults of transformers'
// configurations: 1e-5 for layer norms, 1e-6 for RMS norms, and a base of 10,000.
model::NumericalConstants ReadConstants(const model::Architecture& architecture,
                                        HuggingFaceReader& reader);

// Judges the keys that a model_type does not define. Derived models add keys to a known type, and
// programs add their own. Each is known to change neither shapes nor time (names, token ids,
// constants of kernels), known to change the layers, or unknown.

// How to treat unknown keys.
enum class UnknownKeys : std::uint8_t {
  kWarnOf,
  kPassOver,  // ignore: keys around the text model, which is left out with one warning
};

// Judges all values that `reader` did not request. A key that changes shapes, FLOPs or memory is
// refused (model.not-modelled), unless its value is neutral: null, false, 0, empty, or what the
// layers have in any case (a factor of 1). A key that changes only values, or a little elementwise
// work, causes a warning, and so does an unknown key.
void JudgeOtherKeys(HuggingFaceReader& reader, UnknownKeys unknown);

// Accepts the keys for norms of queries and keys, for types whose layers always have these norms.
void AcceptHeadNorms(HuggingFaceReader& reader);

}  // namespace stepcast::formats
