#include "src/formats/huggingface.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/formats/json_object.h"

namespace stepcast::formats {
namespace {

using model::Architecture;
using model::Family;
using Kind = JsonValue::Kind;

constexpr std::int64_t kMostDimension = 1'000'000'000'000;

// Reads values by path. A key that is null counts as absent, as it does in transformers.
class Reader {
 public:
  Reader(const JsonObject& config, Diagnostics& mistakes) : config_(config), mistakes_(mistakes) {}

  const JsonValue* Find(const std::string& path) const {
    const JsonValue* value = config_.Find(path);
    return value == nullptr || value->kind == Kind::kNull ? nullptr : value;
  }

  std::optional<std::int64_t> OptionalDimension(const std::string& path) {
    const JsonValue* value = Find(path);
    if (value == nullptr) return std::nullopt;
    if (value->kind != Kind::kInteger) {
      Report(path, "input.not-an-integer", "needs an integer", *value);
      return std::nullopt;
    }
    if (value->integer < 1 || value->integer > kMostDimension) {
      Report(path, "input.out-of-range", fmt::format("must lie between 1 and {}", kMostDimension),
             *value);
      return std::nullopt;
    }
    return value->integer;
  }

  // 1 after reporting that it is missing or wrong.
  std::int64_t Dimension(const std::string& path) {
    if (Find(path) == nullptr) {
      mistakes_.push_back({"input.missing-key", config_.location(),
                           fmt::format("missing key: {}", Quoted(path)),
                           "a config.json of this model_type states it"});
      return 1;
    }
    return OptionalDimension(path).value_or(1);
  }

  bool Boolean(const std::string& path, bool absent) {
    const JsonValue* value = Find(path);
    if (value == nullptr) return absent;
    if (value->kind != Kind::kBoolean) {
      Report(path, "input.not-a-boolean", "needs true or false", *value);
      return absent;
    }
    return value->boolean;
  }

  double Number(const std::string& path, double absent) {
    const JsonValue* value = Find(path);
    if (value == nullptr) return absent;
    if ((value->kind != Kind::kNumber && value->kind != Kind::kInteger) || value->number < 0) {
      Report(path, "input.not-a-number", "needs a number, not below zero", *value);
      return absent;
    }
    return value->number;
  }

  std::string Text(const std::string& path, std::string absent) {
    const JsonValue* value = Find(path);
    if (value == nullptr) return absent;
    if (value->kind != Kind::kText) {
      Report(path, "input.wrong-kind", "needs text", *value);
      return absent;
    }
    return value->text;
  }

  // Reports a variant that is not modelled.
  void Refuse(const std::string& path, std::string_view why) {
    const JsonValue* value = Find(path);
    mistakes_.push_back({"model.not-modelled",
                         value == nullptr ? config_.location() : value->location,
                         fmt::format("{}: {} is {}", why, Quoted(path),
                                     value == nullptr ? "absent" : value->Described()),
                         "describe the model in a model file; see docs/formats.md"});
  }

 private:
  void Report(const std::string& path, std::string code, std::string_view need,
              const JsonValue& value) {
    mistakes_.push_back({std::move(code), value.location,
                         fmt::format("{} {}: {}", Quoted(path), need, value.Described()), ""});
  }

  const JsonObject& config_;
  Diagnostics& mistakes_;
};

// Where each dimension stands in the file, to place what model::Check finds.
using KeysOfFields = std::map<std::string, std::string>;

// GPT2Config. Missing dropout keys mean 0.1 there.
Architecture ReadGpt2(Reader& reader, KeysOfFields& keys) {
  Architecture a = TypicalOf(Family::kGpt2);
  keys = {{"num_hidden_layers", "n_layer"},          {"hidden_size", "n_embd"},
          {"num_attention_heads", "n_head"},         {"head_dim", "n_head"},
          {"num_key_value_heads", "n_head"},         {"intermediate_size", "n_inner"},
          {"max_position_embeddings", "n_positions"}};
  a.layers = reader.Dimension("n_layer");
  a.hidden = reader.Dimension("n_embd");
  a.heads = a.kv_heads = reader.Dimension("n_head");
  a.head_size = a.hidden / a.heads;
  a.feed_forward = reader.OptionalDimension("n_inner").value_or(4 * a.hidden);
  a.vocabulary = reader.Dimension("vocab_size");
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

// What LlamaConfig, MistralConfig, Qwen2Config and NemotronConfig share.
Architecture ReadLlama(Family family, Reader& reader, KeysOfFields& keys) {
  Architecture a = TypicalOf(family);
  a.layers = reader.Dimension("num_hidden_layers");
  a.hidden = reader.Dimension("hidden_size");
  a.heads = reader.Dimension("num_attention_heads");
  a.kv_heads = reader.OptionalDimension("num_key_value_heads").value_or(a.heads);
  if (reader.Find("head_dim") == nullptr) keys["head_dim"] = "num_attention_heads";
  a.head_size = reader.OptionalDimension("head_dim").value_or(a.hidden / a.heads);
  a.feed_forward = reader.Dimension("intermediate_size");
  a.vocabulary = reader.Dimension("vocab_size");
  a.max_positions = reader.OptionalDimension("max_position_embeddings").value_or(0);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", false);
  a.attention_dropout = reader.Number("attention_dropout", 0) > 0;
  for (const char* key : {"num_local_experts", "num_experts"}) {
    if (reader.OptionalDimension(key).value_or(1) > 1) {
      reader.Refuse(key, "only dense feed-forward layers are modelled");
    }
  }
  return a;
}

void ReadLlamaBiases(Reader& reader, Architecture& a) {
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  a.feed_forward_bias = reader.Boolean("mlp_bias", false);
}

// The window holds from layer max_window_layers on.
void ReadQwen2Window(Reader& reader, Architecture& a) {
  if (!reader.Boolean("use_sliding_window", false)) return;
  constexpr std::int64_t kDefaultWindow = 4096, kDefaultFirstLayer = 28;
  const std::int64_t window = reader.OptionalDimension("sliding_window").value_or(kDefaultWindow);
  const JsonValue* first = reader.Find("max_window_layers");
  const bool everywhere = first != nullptr && first->kind == Kind::kInteger && first->integer == 0;
  if (everywhere) {
    a.attention_window = window;
    return;
  }
  if (reader.OptionalDimension("max_window_layers").value_or(kDefaultFirstLayer) < a.layers) {
    reader.Refuse("max_window_layers",
                  "layers with and without a window are not modelled together");
  }
}

// MptConfig of transformers and of llm-foundry; where their defaults differ, transformers' hold.
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
  if (width != std::floor(width) || width > static_cast<double>(kMostDimension)) {
    reader.Refuse("expansion_ratio", "d_model x expansion_ratio is not a whole number");
  } else {
    a.feed_forward = static_cast<std::int64_t>(width);
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
  // With ALiBi there is no table of positions, whatever learned_pos_emb says; without either the
  // model has no positions, which costs nothing, as ALiBi does.
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

// BertConfig and MegatronBertConfig. Both pre-training heads, unless `architectures` names a model
// that has but one.
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
    if (reader.Boolean(key, false)) reader.Refuse(key, "only encoders alone are modelled");
  }
  if (const JsonValue* classes = reader.Find("architectures.0");
      classes != nullptr && classes->kind == Kind::kText) {
    a.next_sentence = !classes->text.ends_with("ForMaskedLM");
  }
  return a;
}

// `rope_scaling`, or since transformers 5 `rope_parameters`, which holds the base as well. Rules
// that are not known here are taken for none.
std::optional<model::RotaryScaling> ReadRotaryScaling(Reader& reader) {
  for (const std::string section : {"rope_parameters.", "rope_scaling."}) {
    const std::string type = reader.Text(section + "rope_type", reader.Text(section + "type", ""));
    for (const model::RotaryRule rule : model::kRotaryRules) {
      if (type != Name(rule)) continue;
      model::RotaryScaling scaling{.rule = rule, .factor = reader.Number(section + "factor", 1)};
      scaling.low_frequency_factor = reader.Number(section + "low_freq_factor", 1);
      scaling.high_frequency_factor = reader.Number(section + "high_freq_factor", 4);
      scaling.original_positions =
          reader.OptionalDimension(section + "original_max_position_embeddings")
              .value_or(scaling.original_positions);
      return scaling;
    }
  }
  return std::nullopt;
}

// What transformers' configurations fill in: 1e-5 for layer norms, 1e-6 for RMS norms, a base of
// 10,000.
model::NumericalConstants ReadConstants(const Architecture& architecture, Reader& reader) {
  model::NumericalConstants constants;
  const bool layer_norm = architecture.normalization == model::Normalization::kLayerNorm;
  constants.norm_epsilon =
      architecture.family == Family::kNemotron ? reader.Number("norm_eps", 1e-5)
      : model::IsEncoder(architecture.family)  ? reader.Number("layer_norm_eps", 1e-12)
      : layer_norm                             ? reader.Number("layer_norm_epsilon", 1e-5)
                                               : reader.Number("rms_norm_eps", 1e-6);
  if (architecture.position != model::Position::kRotary) return constants;
  constants.rotary_base = reader.Number("rope_parameters.rope_theta",
                                        reader.Number("rope_theta", constants.rotary_base));
  constants.rotary_scaling = ReadRotaryScaling(reader);
  return constants;
}

constexpr std::array<std::string_view, 8> kModelTypes = {
    "bert", "gpt2", "llama", "megatron-bert", "mistral", "mpt", "nemotron", "qwen2"};

}  // namespace

Result<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view text, const std::string& file) {
  const Result<JsonObject> object = JsonObject::Parse(text, file);
  if (!object.has_value()) return tl::make_unexpected(object.error());
  Diagnostics mistakes;
  Reader reader(*object, mistakes);
  const JsonValue* type = reader.Find("model_type");
  const std::string known = fmt::format("known are {}", fmt::join(kModelTypes, ", "));
  if (type == nullptr || type->kind != Kind::kText) {
    mistakes.push_back({"input.missing-key", type == nullptr ? object->location() : type->location,
                        "a Hugging Face config.json has a 'model_type' that is text", known});
    return tl::make_unexpected(std::move(mistakes));
  }

  HuggingFaceConfig config;
  KeysOfFields keys;
  if (type->text == "gpt2") {
    config.architecture = ReadGpt2(reader, keys);
  } else if (type->text == "llama") {
    config.architecture = ReadLlama(Family::kLlama, reader, keys);
    ReadLlamaBiases(reader, config.architecture);
  } else if (type->text == "mistral") {
    config.architecture = ReadLlama(Family::kMistral, reader, keys);
    // null and absent differ here: absent is the first release, which had a window and 8 key-value
    // heads.
    constexpr std::int64_t kFirstWindow = 4096, kFirstKeyValueHeads = 8;
    if (object->Find("num_key_value_heads") == nullptr) {
      config.architecture.kv_heads = kFirstKeyValueHeads;
    }
    config.architecture.attention_window =
        object->Find("sliding_window") == nullptr
            ? kFirstWindow
            : reader.OptionalDimension("sliding_window").value_or(0);
  } else if (type->text == "qwen2") {
    config.architecture = ReadLlama(Family::kQwen2, reader, keys);
    ReadQwen2Window(reader, config.architecture);
  } else if (type->text == "nemotron") {
    config.architecture = ReadLlama(Family::kNemotron, reader, keys);
    ReadLlamaBiases(reader, config.architecture);
    if (reader.Text("hidden_act", "relu2") != "relu2") {
      reader.Refuse("hidden_act", "models of type nemotron have relu2");
    }
  } else if (type->text == "bert") {
    config.architecture = ReadBert(Family::kBert, reader, keys);
  } else if (type->text == "megatron-bert") {
    config.architecture = ReadBert(Family::kMegatronBert, reader, keys);
  } else if (type->text == "mpt") {
    config.architecture = ReadMpt(reader, keys);
  } else {
    // A program wrote the word: one that is nearly another is not a typing mistake (mixtral).
    mistakes.push_back({"model.unknown-type", type->location,
                        "models of this type are not modelled: " + Quoted(type->text), known});
  }
  config.name = reader.Text("_name_or_path", "");
  config.constants = ReadConstants(config.architecture, reader);
  if (mistakes.empty()) {
    for (model::ArchitectureFault& fault : Check(config.architecture)) {
      const auto key = keys.find(fault.field);
      const JsonValue* value = reader.Find(key == keys.end() ? fault.field : key->second);
      mistakes.push_back({"model.impossible",
                          value == nullptr ? object->location() : value->location,
                          std::move(fault.message), std::move(fault.hint)});
    }
  }
  if (!mistakes.empty()) return tl::make_unexpected(std::move(mistakes));
  return config;
}

}  // namespace stepcast::formats
