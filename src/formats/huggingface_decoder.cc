#include <algorithm>
#include <optional>
#include <vector>

#include "fmt/format.h"
#include "src/formats/huggingface.h"

namespace stepcast::formats {
namespace {

// `layer_types`, since transformers 4.53. Nothing if it is absent or was reported as a mistake.
struct LayerTypes {
  std::int64_t full = 0, sliding = 0;  // number of layers with full attention, and with a window
  // Exactly every full_every-th layer is full; 0: another order.
  std::int64_t full_every = 0;
};
LayerTypes TypesOf(const std::vector<bool>& full) {
  LayerTypes types;
  const auto first = std::find(full.begin(), full.end(), true);
  types.full_every = first - full.begin() + 1;
  for (std::size_t i = 0; i < full.size(); ++i) {
    if (full[i] != ((static_cast<std::int64_t>(i) + 1) % types.full_every == 0)) {
      types.full_every = 0;
      break;
    }
  }
  types.full = std::count(full.begin(), full.end(), true);
  types.sliding = std::ssize(full) - types.full;
  return types;
}
std::optional<LayerTypes> ReadLayerTypes(HuggingFaceReader& reader, std::int64_t layers) {
  const auto words = reader.Texts("layer_types");
  if (!words) return std::nullopt;
  std::vector<bool> full;
  for (const std::string& word : *words) {
    full.push_back(word == "full_attention");
    if (full.back() || word == "sliding_attention") continue;
    reader.Refuse("layer_types", fmt::format("layers of type {} are not modelled", Quoted(word)),
                  kTakeTheKeyOut);
    return std::nullopt;
  }
  if (std::ssize(full) != layers && !reader.failed()) {
    reader.Refuse("layer_types",
                  fmt::format("{} layers cannot be of {} types", layers, full.size()),
                  "name the type of every layer, or leave layer_types out");
    return std::nullopt;
  }
  return TypesOf(full);
}

constexpr std::string_view kMixedWindows =
    "layers without a window of attention are modelled only at a regular interval";

}  // namespace

model::Architecture ReadRotaryDecoder(model::Family family, HuggingFaceReader& reader,
                                      KeysOfFields& keys, const DecoderDefaults& absent) {
  model::Architecture a = TypicalOf(family);
  a.layers = reader.Dimension("num_hidden_layers");
  a.hidden = reader.Dimension("hidden_size");
  const auto dimension = [&reader](const char* key, std::int64_t otherwise) {
    return otherwise == 0 || reader.Find(key) != nullptr ? reader.Dimension(key) : otherwise;
  };
  a.heads = dimension("num_attention_heads", absent.heads);
  a.kv_heads = reader.OptionalDimension("num_key_value_heads").value_or(a.heads);
  if (reader.Find("head_dim") == nullptr) keys["head_dim"] = "num_attention_heads";
  a.head_size = reader.OptionalDimension("head_dim").value_or(a.hidden / a.heads);
  a.feed_forward = reader.Dimension("intermediate_size");
  a.vocabulary = dimension("vocab_size", absent.vocabulary);
  a.max_positions = reader.OptionalDimension("max_position_embeddings").value_or(0);
  a.tie_embeddings = reader.Boolean("tie_word_embeddings", false);
  a.attention_dropout = reader.Number("attention_dropout", 0) > 0;
  return a;
}

model::Architecture ReadGpt2Dimensions(model::Family family, HuggingFaceReader& reader,
                                       KeysOfFields& keys) {
  model::Architecture a = TypicalOf(family);
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
  return a;
}

void ReadGate(HuggingFaceReader& reader) {
  const std::string gate = reader.Text("hidden_act", "silu");
  if (gate != "silu" && gate != "swish") {
    reader.Warn("hidden_act", "the forecast uses SiLU instead");
  }
}

void ReadBiases(HuggingFaceReader& reader, model::Architecture& a) {
  a.attention_bias = a.projection_bias = reader.Boolean("attention_bias", false);
  a.feed_forward_bias = reader.Boolean("mlp_bias", false);
}

void ReadFullAttention(HuggingFaceReader& reader, const model::Architecture& a) {
  // A model converted from one with a window, which it does not use.
  if (!reader.Boolean("use_sliding_window", true)) reader.Accept("sliding_window");
  const std::optional<LayerTypes> types = ReadLayerTypes(reader, a.layers);
  if (reader.Boolean("use_sliding_window", false) || (types && types->sliding > 0)) {
    reader.Refuse(types ? "layer_types" : "use_sliding_window",
                  "models of this type have no window of attention",
                  "write model_type: mistral, whose layers are the same and have a window");
  }
}

void ReadWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t first_layer,
                const std::string& key, model::Architecture& a) {
  const std::optional<LayerTypes> types = ReadLayerTypes(reader, a.layers);
  if (window == 0) return;
  const std::int64_t sliding =
      types ? types->sliding : std::max<std::int64_t>(a.layers - first_layer, 0);
  if (sliding == 0) return;
  a.attention_window = window;
  if (sliding == a.layers) return;
  if (types && types->full_every > 1) {
    a.full_attention_every = types->full_every;
  } else {
    reader.Refuse(types ? "layer_types" : key, kMixedWindows, kTakeTheKeyOut);
  }
}

void ReadOptionalWindow(HuggingFaceReader& reader, model::Architecture& a) {
  constexpr std::int64_t kDefaultWindow = 4096, kDefaultFirstLayer = 28;
  const bool used = reader.Boolean("use_sliding_window", false);
  reader.Accept("sliding_window");
  reader.Accept("max_window_layers");
  std::int64_t window = 0, first_layer = 0;
  if (used) {
    window = reader.OptionalDimension("sliding_window").value_or(kDefaultWindow);
    const JsonValue* first = reader.Find("max_window_layers");
    const bool everywhere =
        first != nullptr && first->kind == JsonValue::Kind::kInteger && first->integer == 0;
    if (!everywhere) {
      first_layer = reader.OptionalDimension("max_window_layers").value_or(kDefaultFirstLayer);
    }
  }
  ReadWindow(reader, window, first_layer, "max_window_layers", a);
}

void ReadAlternatingWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t full_every,
                           model::Architecture& a) {
  ReadWindow(reader, window, 0, "sliding_window", a);
  if (reader.Find("layer_types") == nullptr) a.full_attention_every = full_every;
}

}  // namespace stepcast::formats
