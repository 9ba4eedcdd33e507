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

// The config.json of a Hugging Face model repository, unchanged. `model_type` decides how the rest
// is read: bert, gpt2, llama, megatron-bert, mistral, mpt (as transformers has it, and as
// llm-foundry writes it), nemotron or qwen2, in the spelling of transformers 4 and 5. Of a
// multimodal model whose `text_config` is of such a type the text model is read. What transformers
// fills in when a key is left out is filled in here, but the dimensions of a model must be there.
// No key is passed over in silence but those that are known to change neither shapes nor time
// (huggingface.h).

struct HuggingFaceConfig {
  std::string name;  // "_name_or_path", if it is there; else empty
  model::Architecture architecture;
  model::NumericalConstants constants{};
  // What the forecast makes of keys that it does not follow, and keys that are not known: sentences
  // without full stop.
  std::vector<std::string> warnings{};
};

// `file` names the text in positions.
Result<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text, const std::string& file);

// ParseHuggingFaceConfig reads models of this type, with or without a wrapper around the text model.
bool ReadsType(std::string_view model_type);

// The hint for layers that a model file cannot describe either.
inline constexpr const char* kTakeTheKeyOut =
    "take the key out if the model has nothing of the kind; no model file can describe it either";

// Reads the values of a config.json by path and remembers which were asked for, so that what nobody
// asked for can be judged (huggingface.h). A key that is null counts as absent, as it does in
// transformers. Paths are those inside `section`: "rope_scaling.factor".
class HuggingFaceReader {
 public:
  static constexpr std::int64_t kMostDimension = 1'000'000'000'000;

  // `section`: the object to read, "text_config"; empty: the whole document. `config`, `mistakes`
  // and `warnings` must outlive the reader.
  HuggingFaceReader(const JsonObject& config, std::string_view section, Diagnostics& mistakes,
                    std::vector<std::string>& warnings);

  const JsonValue* Find(const std::string& path);
  // The key stands in the file, if only as null.
  bool Has(const std::string& path) const;
  // Not 1 and up: reported, and nothing.
  std::optional<std::int64_t> OptionalDimension(const std::string& path);
  // Where 0 says that there is none, as leaving the key out does.
  std::int64_t OptionalDimensionOrZero(const std::string& path);
  // 1 after reporting that it is missing or wrong.
  std::int64_t Dimension(const std::string& path);
  bool Boolean(const std::string& path, bool absent);
  double Number(const std::string& path, double absent);  // not below zero
  std::string Text(const std::string& path, std::string absent);
  // The texts of an array; what else it holds is reported. Nothing: there is no such array.
  std::optional<std::vector<std::string>> Texts(const std::string& path);
  // What stands there makes no difference: it counts as asked for.
  void Accept(const std::string& path) { Find(path); }

  // Reports a variant that is not modelled.
  void Refuse(const std::string& path, std::string_view why,
              std::string hint = "describe the model in a model file; see docs/formats.md");
  // Says what the forecast makes of a value that it does not follow.
  void Warn(const std::string& path, std::string_view what);

  // The values that were not asked for, by path: those of the section, and of the objects in it of
  // which some value was.
  std::vector<std::pair<std::string, const JsonValue*>> Others() const;
  // Of the section itself, the keys that were asked for.
  std::vector<std::string_view> KeysAskedFor() const;
  // Something was reported since this reader was made: dimensions may stand in for others.
  bool failed() const { return mistakes_.size() > mistakes_before_; }
  // Where the section stands.
  Location location() const;

 private:
  void Report(const std::string& path, std::string code, std::string_view need,
              const JsonValue& value);
  std::string PathOf(const std::string& path) const { return prefix_ + path; }

  const JsonObject& config_;
  const std::string section_;
  const std::string prefix_;  // of paths in it: "text_config.", or nothing
  Diagnostics& mistakes_;
  const std::size_t mistakes_before_;
  std::vector<std::string>& warnings_;
  std::set<std::string> asked_for_;  // paths in the section
};

// What the configurations of several decoders share.

// Where each dimension stands in the file, by its name in a model file, where the two differ: to
// place what model::Check finds.
using KeysOfFields = std::map<std::string, std::string>;

// Dimensions that a file may leave to its class; 0: it must state them.
struct DecoderDefaults {
  std::int64_t heads = 0, vocabulary = 0;
};

// Dimensions, tied embeddings and dropout, as LlamaConfig has them and those that follow it.
model::Architecture ReadRotaryDecoder(model::Family family, HuggingFaceReader& reader,
                                      KeysOfFields& keys, const DecoderDefaults& absent = {});

// Dimensions as GPT2Config names them and those that follow it. The number of positions is left to
// the caller.
model::Architecture ReadGpt2Dimensions(model::Family family, HuggingFaceReader& reader,
                                       KeysOfFields& keys);

// The products and their bytes are those of SwiGLU whatever function gates.
void ReadGate(HuggingFaceReader& reader);

// `attention_bias`: of queries, keys, values and of the output; `mlp_bias`.
void ReadBiases(HuggingFaceReader& reader, model::Architecture& architecture);

// Of classes that know no window: a file that states one is refused.
void ReadFullAttention(HuggingFaceReader& reader, const model::Architecture& architecture);

// A window of so many tokens, in the layers that `layer_types` calls so; without it, in all from
// `first_layer` on, which `key` states. 0: there is none.
void ReadWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t first_layer,
                const std::string& key, model::Architecture& architecture);

// `use_sliding_window`, `sliding_window` and, if `layer_types` is not there, `max_window_layers`,
// the first layer that has the window, as Qwen2Config has them and those that follow it.
void ReadOptionalWindow(HuggingFaceReader& reader, model::Architecture& architecture);

// The layers have a window, but for each so-many-th; `layer_types`, where it is there, holds in the
// place of `full_every`.
void ReadAlternatingWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t full_every,
                           model::Architecture& architecture);

// The config.json of dense decoders that differ from Llama's in norms, windows or products, one
// function for each model_type.

model::Architecture ReadGemma1(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGlm4(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadStarcoder2(HuggingFaceReader& reader, KeysOfFields& keys);
// Llama's layers under other names.
model::Architecture ReadErnie(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGranite(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadSeedOss(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadSmolLm3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGemma2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGemma3(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadOlmo2(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadPhi3(HuggingFaceReader& reader, KeysOfFields& keys);

// The keys of a config.json that its model_type gives no meaning to. Derived models add keys to a
// known type, and programs add keys of their own: each is either known to change neither shapes nor
// time (names, token ids, constants of kernels), or known to change the layers, or not known.

// What a key that is not known at all means.
enum class UnknownKeys : std::uint8_t {
  kWarnOf,
  kPassOver,  // of what lies around the text model, which is said to be left out as a whole
};

// Judges all values that `reader` was not asked for. A key that changes shapes, FLOPs or memory is
// refused (model.not-modelled) unless its value is neutral: null, false, 0, empty, or what the
// layers are in any case (a factor of 1). One that changes values alone, or a little elementwise
// work, is warned of, and so is one that is not known.
void JudgeOtherKeys(HuggingFaceReader& reader, UnknownKeys unknown);

// Accepts the keys that say whether queries and keys have norms of their own: in a type whose
// layers have them in any case they say nothing.
void AcceptHeadNorms(HuggingFaceReader& reader);

// The config.json of mixtures of experts, one function for each model_type.

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

// The config.json of decoders whose attention and feed-forward take the same input, one function
// for each model_type.

model::Architecture ReadGptj(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadGptNeox(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadPhi(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadFalcon(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadCohere(HuggingFaceReader& reader, KeysOfFields& keys);
model::Architecture ReadCohere2(HuggingFaceReader& reader, KeysOfFields& keys);

}  // namespace stepcast::formats
