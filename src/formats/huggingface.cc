#include "src/formats/huggingface.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/formats/json_tree.h"
#include "src/model/other_families.h"

namespace stepcast::formats {
namespace {

using model::Architecture;
using model::Family;
using Kind = JsonValue::Kind;
using Reader = HuggingFaceReader;

constexpr std::int64_t kMostDimension = HuggingFaceReader::kMostDimension;

// GPT2Config, in which missing dropout keys mean 0.1.
Architecture ReadGpt2(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadGpt2Dimensions(Family::kGpt2, reader, keys);
  a.max_positions = reader.Dimension("n_positions");
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  constexpr double kDropout = 0.1;
  const bool residual = reader.Number("resid_pdrop", kDropout) > 0;
  const bool embedding = reader.Number("embd_pdrop", kDropout) > 0;
  a.dropout = residual || embedding;
  a.attention_dropout = reader.Number("attn_pdrop", kDropout) > 0;
  if (!reader.Text("activation_function", "gelu_new").starts_with("gelu")) {
    reader.Refuse("activation_function", "only GeLU is modelled in the family gpt2");
  }
  if (reader.Boolean("add_cross_attention", false)) {
    reader.Refuse("add_cross_attention", "only decoders without cross attention are modelled");
  }
  return a;
}

Architecture ReadLlama(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kLlama, reader, keys);
  ReadBiases(reader, a);
  ReadGate(reader);
  ReadFullAttention(reader, a);
  return a;
}

// Null and absent differ here. An absent key means the first release, which had a window and 8
// key-value heads.
Architecture ReadMistral(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kFirstWindow = 4096, kFirstKeyValueHeads = 8;
  Architecture a = ReadRotaryDecoder(Family::kMistral, reader, keys);
  if (!reader.Has("num_key_value_heads")) a.kv_heads = kFirstKeyValueHeads;
  ReadGate(reader);
  std::int64_t window = reader.Has("sliding_window")
                            ? reader.OptionalDimension("sliding_window").value_or(0)
                            : kFirstWindow;
  if (!reader.Boolean("use_sliding_window", true)) window = 0;
  ReadWindow(reader, window, 0, "sliding_window", a);
  return a;
}

Architecture ReadQwen2(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kQwen2, reader, keys);
  ReadGate(reader);
  if (!reader.Boolean("attention_bias", true)) {
    reader.Warn("attention_bias", "queries, keys and values of this model_type have biases");
  }
  ReadOptionalWindow(reader, a);
  return a;
}

// Qwen3Config, with heads of 128 if head_dim is missing.
Architecture ReadQwen3(Reader& reader, KeysOfFields& keys) {
  constexpr std::int64_t kHeadSize = 128;
  Architecture a = ReadRotaryDecoder(Family::kQwen3, reader, keys);
  if (reader.Find("head_dim") == nullptr) a.head_size = kHeadSize;
  ReadGate(reader);
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  ReadOptionalWindow(reader, a);
  return a;
}

Architecture ReadNemotron(Reader& reader, KeysOfFields& keys) {
  Architecture a = ReadRotaryDecoder(Family::kNemotron, reader, keys);
  ReadBiases(reader, a);
  if (reader.Text("hidden_act", "relu2") != "relu2") {
    reader.Refuse("hidden_act", "models of type nemotron have relu2");
  }
  ReadFullAttention(reader, a);
  return a;
}

// MptConfig of transformers and of llm-foundry. If their defaults differ, those of transformers are
// used.
Architecture ReadMpt(Reader& reader, KeysOfFields& keys) {
  Architecture a = TypicalOf(Family::kMpt);
  keys = {{"num_hidden_layers", "n_layers"},
          {"hidden_size", "d_model"},
          {"num_attention_heads", "n_heads"},
          {"head_dim", "n_heads"},
          {"num_key_value_heads", "attn_config.kv_n_heads"},
          {"intermediate_size", "expansion_ratio"},
          {"max_position_embeddings", "max_seq_len"}};
  a.layers = reader.Dimension("n_layers");
  a.hidden = reader.Dimension("d_model");
  a.heads = reader.Dimension("n_heads");
  a.head_size = a.hidden / a.heads;
  a.vocabulary = reader.Dimension("vocab_size");
  constexpr double kExpansion = 4;
  const double width = reader.Number("expansion_ratio", kExpansion) * static_cast<double>(a.hidden);
  if (width == std::floor(width) && width <= static_cast<double>(kMostDimension)) {
    a.feed_forward = static_cast<std::int64_t>(width);
  } else if (!reader.failed()) {
    reader.Refuse("expansion_ratio", "d_model x expansion_ratio is not a whole number");
  }
  constexpr std::int64_t kPositions = 2048;
  a.max_positions = reader.OptionalDimension("max_seq_len").value_or(kPositions);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);

  const bool biases = !reader.Boolean("no_bias", true);
  a.attention_bias = a.projection_bias = a.feed_forward_bias = biases;
  const std::string norm = reader.Text("norm_type", "low_precision_layernorm");
  if (norm.ends_with("rmsnorm")) {
    a.normalization = model::Normalization::kRmsNorm;
  } else if (!norm.ends_with("layernorm")) {
    reader.Refuse("norm_type", "only layernorm and rmsnorm are modelled");
  }
  a.norm_bias = biases && a.normalization == model::Normalization::kLayerNorm;
  const bool residual = reader.Number("resid_pdrop", 0) > 0;
  const bool embedding = reader.Number("emb_pdrop", 0) > 0;
  a.dropout = residual || embedding;

  a.attention_dropout = reader.Number("attn_config.attn_pdrop", 0) > 0;
  // With ALiBi there is no position table, whatever learned_pos_emb says. Without either, the model
  // has no positions, which costs nothing, like ALiBi.
  const bool alibi = reader.Boolean("attn_config.alibi", true);
  const bool learned = reader.Boolean("learned_pos_emb", true);
  a.position = !alibi && learned ? model::Position::kLearned : model::Position::kAlibi;
  if (reader.Boolean("attn_config.rope", false)) {
    reader.Refuse("attn_config.rope", "rotary positions are not modelled in the family mpt");
  }
  if (reader.Boolean("attn_config.qk_ln", false)) {
    reader.Refuse("attn_config.qk_ln", "norms of queries and keys are not modelled");
  }
  const std::string type = reader.Text("attn_config.attn_type", "multihead_attention");
  a.kv_heads = a.heads;
  if (type == "multiquery_attention") {
    a.kv_heads = 1;
  } else if (type == "grouped_query_attention") {
    a.kv_heads = reader.Dimension("attn_config.kv_n_heads");
  } else if (type != "multihead_attention") {
    reader.Refuse("attn_config.attn_type", "this kind of attention is not modelled");
  }
  if (reader.Text("ffn_config.ffn_type", "mptmlp") != "mptmlp") {
    reader.Refuse("ffn_config.ffn_type", "only mptmlp is modelled");
  }
  return a;
}

// BertConfig and MegatronBertConfig. Both pre-training heads are included, unless `architectures`
// names a model with only one.
Architecture ReadBert(Family family, Reader& reader, KeysOfFields& keys) {
  Architecture a = TypicalOf(family);
  keys = {{"head_dim", "num_attention_heads"}, {"num_key_value_heads", "num_attention_heads"}};
  a.layers = reader.Dimension("num_hidden_layers");
  a.hidden = reader.Dimension("hidden_size");
  a.heads = a.kv_heads = reader.Dimension("num_attention_heads");
  a.head_size = a.hidden / a.heads;
  a.feed_forward = reader.Dimension("intermediate_size");
  a.vocabulary = reader.Dimension("vocab_size");
  a.max_positions = reader.Dimension("max_position_embeddings");
  a.token_types = reader.OptionalDimension("type_vocab_size").value_or(a.token_types);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", true);
  constexpr double kDropout = 0.1;
  a.dropout = reader.Number("hidden_dropout_prob", kDropout) > 0;
  a.attention_dropout = reader.Number("attention_probs_dropout_prob", kDropout) > 0;
  if (!reader.Text("hidden_act", "gelu").starts_with("gelu")) {
    reader.Refuse("hidden_act",
                  fmt::format("only GeLU is modelled in the family {}", Name(family)));
  }
  if (reader.Text("position_embedding_type", "absolute") != "absolute") {
    reader.Refuse("position_embedding_type", "only absolute positions are modelled in encoders");
  }
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (reader.Boolean(key, false))
      reader.Refuse(key, "only encoders without a decoder are modelled");
  }
  if (const JsonValue* classes = reader.Find("architectures.0");
      classes != nullptr && classes->kind == Kind::kText) {
    a.next_sentence = !classes->text.ends_with("ForMaskedLM");
  }
  return a;
}

Architecture ReadBertBase(Reader& reader, KeysOfFields& keys) {
  return ReadBert(Family::kBert, reader, keys);
}
Architecture ReadMegatronBert(Reader& reader, KeysOfFields& keys) {
  return ReadBert(Family::kMegatronBert, reader, keys);
}

// The object with the rotary parameters: `rope_scaling` or, since transformers 5,
// `rope_parameters`. The latter includes the base and, if layers differ, has an object for each of
// layer_types. Empty if there is none.
std::string RotarySection(Reader& reader, const Architecture& architecture) {
  for (const std::string section : {"rope_parameters", "rope_scaling"}) {
    const JsonValue* value = reader.Find(section);
    if (value == nullptr) continue;
    if (value->kind != Kind::kObject) {
      reader.Warn(section, "it is not an object; the forecast leaves positions unscaled");
      continue;
    }
    const std::string full = section + ".full_attention", sliding = section + ".sliding_attention";
    const bool mixed = model::MixesWindows(architecture);
    const bool windows = architecture.attention_window > 0 && !mixed;
    const std::string& own = windows ? sliding : full;
    const std::string& other = windows ? full : sliding;
    if (mixed) {
      // One base is used for all layers: the work is the same, and files for other programs state
      // only one.
      reader.Accept(other);
    } else if (reader.Find(other) != nullptr) {
      reader.Warn(other,
                  "no layer of this model is of that type; its rotary positions are left out");
    }
    if (section == "rope_parameters" && reader.Find("rope_scaling") != nullptr) {
      reader.Warn("rope_scaling", "rope_parameters holds in its place");
    }
    return reader.Find(own) != nullptr ? own : section;
  }
  return "";
}

// Unknown rules are treated as none, with a warning.
std::optional<model::RotaryScaling> ReadRotaryScaling(Reader& reader, const std::string& section) {
  // Files written by transformers contain the older key beside the newer one.
  const std::string older = section + ".type";
  const std::string key =
      reader.Find(section + ".rope_type") != nullptr ? section + ".rope_type" : older;
  reader.Accept(older);
  const std::string type = reader.Text(key, "default");
  for (const model::RotaryRule rule : model::kRotaryRules) {
    if (type != Name(rule)) continue;
    model::RotaryScaling scaling{.rule = rule, .factor = reader.Number(section + ".factor", 1)};
    scaling.low_frequency_factor = reader.Number(section + ".low_freq_factor", 1);
    scaling.high_frequency_factor = reader.Number(section + ".high_freq_factor", 4);
    scaling.original_positions =
        reader.OptionalDimension(section + ".original_max_position_embeddings")
            .value_or(scaling.original_positions);
    return scaling;
  }
  if (type != "default") {
    reader.Warn(key, "this rule is unknown; the forecast leaves positions unscaled");
  }
  return std::nullopt;
}

// Defaults of transformers' configurations: 1e-5 for layer norms, 1e-6 for RMS norms, and a base of
// 10,000.
model::NumericalConstants ReadConstants(const Architecture& architecture, Reader& reader) {
  model::NumericalConstants constants;
  const bool layer_norm = architecture.normalization == model::Normalization::kLayerNorm;
  constants.norm_epsilon = model::IsEncoder(architecture.family) ? 1e-12 : layer_norm ? 1e-5 : 1e-6;
  // Each class has one of these keys.
  for (const char* key : {"norm_eps", "layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps",
                          "norm_epsilon", "layernorm_epsilon"}) {
    if (reader.Find(key) != nullptr) constants.norm_epsilon = reader.Number(key, 0);
  }
  if (architecture.position != model::Position::kRotary) return constants;
  for (const char* key : {"rope_theta", "rotary_emb_base"}) {
    constants.rotary_base = reader.Number(key, constants.rotary_base);
  }
  const std::string section = RotarySection(reader, architecture);
  if (section.empty()) return constants;
  constants.rotary_base = reader.Number(section + ".rope_theta", constants.rotary_base);
  constants.rotary_scaling = ReadRotaryScaling(reader, section);
  return constants;
}

struct ModelType {
  std::string_view name;
  Architecture (*read)(Reader& reader, KeysOfFields& keys);
};
constexpr ModelType kModelTypes[] = {
    {"bert", ReadBertBase},
    {"cohere", ReadCohere},
    {"cohere2", ReadCohere2},
    {"deepseek_v2", ReadDeepseekV2},
    {"deepseek_v3", ReadDeepseekV3},
    {"ernie4_5", ReadErnie},
    {"ernie4_5_moe", ReadErnieMoe},
    {"falcon", ReadFalcon},
    {"gemma", ReadGemma1},
    {"gemma2", ReadGemma2},
    {"gemma3_text", ReadGemma3},
    {"glm", ReadGlm},
    {"glm4", ReadGlm4},
    {"glm4_moe", ReadGlm4Moe},
    {"gpt2", ReadGpt2},
    {"gpt_neox", ReadGptNeox},
    {"gpt_oss", ReadGptOss},
    {"gptj", ReadGptj},
    {"granite", ReadGranite},
    {"granitemoe", ReadGraniteMoe},
    {"kimi_k2", ReadKimiK2},
    {"llama", ReadLlama},
    {"llama4_text", ReadLlama4},
    {"megatron-bert", ReadMegatronBert},
    {"minimax_m2", ReadMiniMaxM2},
    {"mistral", ReadMistral},
    {"mixtral", ReadMixtral},
    {"mpt", ReadMpt},
    {"nemotron", ReadNemotron},
    {"olmo2", ReadOlmo2},
    {"olmoe", ReadOlmoe},
    {"phi", ReadPhi},
    {"phi3", ReadPhi3},
    {"qwen2", ReadQwen2},
    {"qwen2_moe", ReadQwen2Moe},
    {"qwen3", ReadQwen3},
    {"qwen3_moe", ReadQwen3Moe},
    {"seed_oss", ReadSeedOss},
    {"smollm3", ReadSmolLm3},
    {"starcoder2", ReadStarcoder2},
};

const ModelType* TypeCalled(const JsonValue* name) {
  if (name == nullptr || name->kind != Kind::kText) return nullptr;
  for (const ModelType& type : kModelTypes) {
    if (type.name == name->text) return &type;
  }
  return nullptr;
}

std::string KnownTypes() {
  std::vector<std::string_view> names;
  for (const ModelType& type : kModelTypes) names.push_back(type.name);
  return fmt::format("known are {}", fmt::join(names, ", "));
}

// A mistake about a missing or unknown type; `name` is the value found instead.
Diagnostic WrongType(const JsonObject& object, const JsonValue* name, std::string_view key) {
  if (name == nullptr || name->kind != Kind::kText) {
    return {"input.missing-key", name == nullptr ? object.location() : name->location,
            fmt::format("a Hugging Face config.json has a {} that is text", Quoted(key)),
            KnownTypes()};
  }
  // A program wrote the word, so a similar known word is not a typing mistake (mixtral).
  const model::OtherFamily* other = model::OtherFamilyOf(name->text);
  return {"model.unknown-type", name->location,
          "models of this type are not modelled: " + Quoted(name->text),
          other == nullptr ? KnownTypes()
                           : fmt::format("{}; {}", model::Difference(*other), KnownTypes())};
}

// Reads the wrapper of a text model in text_config. Everything around the text model is left out,
// with a warning.
void ReadWrapper(const JsonObject& object, const std::string& type, Diagnostics& mistakes,
                 HuggingFaceConfig& config) {
  Reader around(object, "", mistakes, config.warnings);
  config.warnings.insert(
      config.warnings.begin(),
      fmt::format("model: only the text model of {} is forecast; the vision tower, the projector "
                  "and everything else beside text_config are left out",
                  Quoted(type)));
  around.Accept("text_config");
  for (const char* tower : {"vision_config", "audio_config"}) around.Accept(tower);
  // The wrapper's value applies if the text model has none.
  const JsonValue* tied = around.Find("tie_word_embeddings");
  if (tied != nullptr && object.Find("text_config.tie_word_embeddings") == nullptr) {
    config.architecture.tie_embeddings =
        around.Boolean("tie_word_embeddings", config.architecture.tie_embeddings);
  }
  JudgeOtherKeys(around, UnknownKeys::kPassOver);
}

}  // namespace

bool ReadsType(std::string_view model_type) {
  return std::any_of(std::begin(kModelTypes), std::end(kModelTypes),
                     [model_type](const ModelType& type) { return type.name == model_type; });
}

Result<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text, const std::string& file) {
  const Result<JsonObject> object = JsonObject::Parse(text, file);
  if (!object.has_value()) return tl::make_unexpected(object.error());
  const JsonValue* name = object->Find("model_type");
  std::string section;
  const ModelType* type = TypeCalled(name);
  if (const JsonValue* text_type = object->Find("text_config.model_type");
      type == nullptr && name != nullptr && name->kind == Kind::kText && text_type != nullptr) {
    section = "text_config";
    type = TypeCalled(text_type);
    if (type == nullptr) {
      return tl::make_unexpected(
          Diagnostics{WrongType(*object, text_type, "text_config.model_type")});
    }
  }
  if (type == nullptr) {
    return tl::make_unexpected(Diagnostics{WrongType(*object, name, "model_type")});
  }

  Diagnostics mistakes;
  HuggingFaceConfig config;
  KeysOfFields keys;
  Reader reader(*object, section, mistakes, config.warnings);
  config.architecture = type->read(reader, keys);
  config.name = reader.Text("_name_or_path", "");
  config.constants = ReadConstants(config.architecture, reader);
  if (config.architecture.qk_norm) AcceptHeadNorms(reader);
  JudgeOtherKeys(reader, UnknownKeys::kWarnOf);
  if (!section.empty()) ReadWrapper(*object, name->text, mistakes, config);
  if (mistakes.empty()) {
    for (model::ArchitectureFault& fault : Check(config.architecture)) {
      const auto key = keys.find(fault.field);
      const JsonValue* value = reader.Find(key == keys.end() ? fault.field : key->second);
      mistakes.push_back({"model.impossible",
                          value == nullptr ? reader.location() : value->location,
                          std::move(fault.message), std::move(fault.hint)});
    }
  }
  if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  return config;
}

}  // namespace stepcast::formats
