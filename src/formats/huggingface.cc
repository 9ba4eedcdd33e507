#include "src/formats/huggingface.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"

namespace stepcast::formats {
namespace {

using model::Architecture;
using Kind = JsonValue::Kind;
using Reader = HuggingFaceReader;

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
    reader.Refuse("layer_types", fmt::format("layers of type {} are not supported", Quoted(word)),
                  kTakeTheKeyOut);
    return std::nullopt;
  }
  if (std::ssize(full) != layers && !reader.failed()) {
    reader.Refuse(
        "layer_types",
        fmt::format("the model has {} layers, but layer_types has {} entries", layers, full.size()),
        "write one entry for each layer in layer_types, or remove layer_types");
    return std::nullopt;
  }
  return TypesOf(full);
}

constexpr std::string_view kMixedWindows =
    "the layers without an attention window must be at regular intervals in layer_types";

// The object with the rotary parameters: `rope_scaling` or, since transformers 5,
// `rope_parameters`. The latter includes the base and, if layers differ, has an object for each of
// layer_types. Empty if there is none.
std::string RotarySection(Reader& reader, const Architecture& architecture) {
  for (const std::string section : {"rope_parameters", "rope_scaling"}) {
    const JsonValue* value = reader.Find(section);
    if (value == nullptr) continue;
    if (value->kind != Kind::kObject) {
      reader.Warn(section,
                  "this key is not an object, so the forecast does not scale rotary "
                  "positions");
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
                  "the forecast ignores these rotary positions, because the model has no "
                  "layers of this type");
    }
    if (section == "rope_parameters" && reader.Find("rope_scaling") != nullptr) {
      reader.Warn("rope_scaling", "the forecast ignores this key and uses rope_parameters");
    }
    return reader.Find(own) != nullptr ? own : section;
  }
  return "";
}

// Unknown rules are treated as none, with a warning.
std::optional<model::RotaryScaling> ReadRotaryScaling(Reader& reader, const std::string& section) {
  // Files written by transformers contain both the older and the newer key.
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
    reader.Warn(key,
                "this type of scaling is unknown, so the forecast does not scale rotary positions");
  }
  return std::nullopt;
}

}  // namespace

void ReadGate(HuggingFaceReader& reader) {
  const std::string gate = reader.Text("hidden_act", "silu");
  if (gate != "silu" && gate != "swish") {
    reader.Warn("hidden_act", "the forecast uses the activation function SiLU instead");
  }
}

void RefuseWindow(Reader& reader, std::int64_t layers) {
  // A model converted from one with a window, which it does not use.
  if (!reader.Boolean("use_sliding_window", true)) reader.Accept("sliding_window");
  const std::optional<LayerTypes> types = ReadLayerTypes(reader, layers);
  if (reader.Boolean("use_sliding_window", false) || (types && types->sliding > 0)) {
    reader.Refuse(types ? "layer_types" : "use_sliding_window",
                  "models of this model_type have no attention window",
                  "write model_type: mistral, which has the same layers and an attention window");
  }
}

AttentionWindow ReadWindow(Reader& reader, std::int64_t layers, const WindowRule& rule) {
  const std::optional<LayerTypes> types = ReadLayerTypes(reader, layers);
  AttentionWindow window;
  const std::int64_t sliding =
      types ? types->sliding : std::max<std::int64_t>(layers - rule.first_layer, 0);
  if (rule.tokens > 0 && sliding > 0) {
    window.tokens = rule.tokens;
    if (sliding < layers && types && types->full_every > 1) {
      window.full_every = types->full_every;
    } else if (sliding < layers) {
      reader.Refuse(types ? "layer_types" : rule.key, kMixedWindows, kTakeTheKeyOut);
    }
  }
  if (reader.Find("layer_types") == nullptr) window.full_every = rule.full_every;
  return window;
}

model::NumericalConstants ReadConstants(const Architecture& architecture, Reader& reader) {
  model::NumericalConstants constants;
  const bool layer_norm = architecture.normalization == model::Normalization::kLayerNorm;
  constants.norm_epsilon = model::TraitsOf(architecture).encoder ? 1e-12 : layer_norm ? 1e-5 : 1e-6;
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

}  // namespace stepcast::formats
