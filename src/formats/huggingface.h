#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

// Reads the unchanged config.json of a Hugging Face model repository. `model_type` determines how
// the other keys are read, in the spelling of transformers 4 and 5 (ReadsType lists the types).
// From a multimodal model, the text model in `text_config` is read. Missing keys get the defaults
// of transformers, but the dimensions of a model are required. Keys that are known to change
// neither shapes nor time are ignored. Any other key that is not followed causes a warning or an
// error.

struct HuggingFaceConfig {
  std::string name;  // "_name_or_path" if present; otherwise empty
  model::Architecture architecture;
  model::NumericalConstants constants{};
  // Keys that the forecast does not follow or does not know, as sentences without a full stop.
  std::vector<std::string> warnings{};
};

// `file` names the text in positions.
Result<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text, const std::string& file);

// Whether ParseHuggingFaceConfig reads models of this type, with or without a wrapper around the
// text model.
bool ReadsType(std::string_view model_type);

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

// Functions that the configurations of several decoders share.

// The config.json key of each dimension, by its name in a model file, if the two differ. It gives
// positions to the mistakes of model::Check.
using KeysOfFields = std::map<std::string, std::string>;

// Default dimensions of a class; 0: the file must state the dimension.
struct DecoderDefaults {
  std::int64_t heads = 0, vocabulary = 0;
};

// Dimensions, tied embeddings and dropout of LlamaConfig and configurations like it.
model::Architecture ReadRotaryDecoder(model::Family family, HuggingFaceReader& reader,
                                      KeysOfFields& keys, const DecoderDefaults& absent = {});

// Dimensions by the names of GPT2Config. The caller reads the number of positions.
model::Architecture ReadGpt2Dimensions(model::Family family, HuggingFaceReader& reader,
                                       KeysOfFields& keys);

// Accepts any gating function: products and bytes are those of SwiGLU.
void ReadGate(HuggingFaceReader& reader);

// `attention_bias`: of queries, keys, values and the output; `mlp_bias`.
void ReadBiases(HuggingFaceReader& reader, model::Architecture& architecture);

// For classes without a window: a file that states one is refused.
void ReadFullAttention(HuggingFaceReader& reader, const model::Architecture& architecture);

// A window of `window` tokens, in the layers that `layer_types` marks. Without `layer_types` it is
// in all layers from `first_layer` on, which comes from `key`. 0: no window.
void ReadWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t first_layer,
                const std::string& key, model::Architecture& architecture);

// `use_sliding_window`, `sliding_window` and, without `layer_types`, `max_window_layers`: the first
// layer with the window, as in Qwen2Config.
void ReadOptionalWindow(HuggingFaceReader& reader, model::Architecture& architecture);

// All layers have a window except every `full_every`-th; `layer_types`, if present, takes
// precedence.
void ReadAlternatingWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t full_every,
                           model::Architecture& architecture);

// The config.json of dense decoders that differ from Llama's in norms, windows or products: one
// function per model_type.

model::Architecture ReadGemma1(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm4(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadStarcoder2(HuggingFaceReader& reader, KeysOfFields& keys);
// Models with Llama's layers under other key names.
model::Architecture ReadErnie(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGranite(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadSeedOss(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadSmolLm3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGemma2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGemma3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadOlmo2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadPhi3(HuggingFaceReader& reader, KeysOfFields& keys);

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

// The config.json of models with experts: one function per model_type.

model::Architecture ReadMixtral(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadQwen3Moe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadDeepseekV2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadDeepseekV3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGptOss(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm4Moe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadLlama4(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadErnieMoe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGraniteMoe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadMiniMaxM2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadOlmoe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadQwen2Moe(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadKimiK2(HuggingFaceReader& reader, KeysOfFields& keys);

// The config.json of decoders whose attention and feed-forward layers share their input: one
// function per model_type.

model::Architecture ReadGptj(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGptNeox(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadPhi(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadFalcon(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadCohere(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadCohere2(HuggingFaceReader& reader, KeysOfFields& keys);

}  // namespace stepcast::formats
