#include "src/scenario/end_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/part_reader.h"

namespace stepcast::scenario {

using model::Architecture;

model::ValueInput ReadValueInput(MappingReader& reader) {
  model::ValueInput input;
  auto fields = reader.ReadMapping("input", Need::kOptional);
  if (!fields) return input;
  PartReader part(fields->node(), reader.diagnostics());
  const auto count = [&part](std::string_view key, std::int64_t most) {
    return part.reader().ReadInteger(key, Need::kOptional, {0, most}).value_or(0);
  };
  input.values = part.Width("values");
  input.taps = part.Width("taps", 1);
  input.halvings = count("halvings", 8);
  input.bias = part.Boolean("bias", true);
  input.positions = count("positions", model::kMostPositions);
  input.fixed_positions = part.Boolean("fixed_positions", false);
  input.class_rows = count("class_rows", model::kMostWidth);
  part.reader().Finish();
  return input;
}

void ReadCondition(MappingReader& reader, Architecture& a) {
  auto fields = reader.ReadMapping("condition", Need::kOptional);
  if (!fields) return;
  PartReader part(fields->node(), reader.diagnostics());
  model::Condition& condition = a.condition;
  condition.time = part.Width("time");
  condition.guidance = part.Boolean("guidance", false);
  condition.classes = part.WidthOrNone("classes");
  condition.text_width = part.WidthOrNone("text_width");
  const bool shared = part.Boolean("shared", false);
  part.reader().Finish();
  constexpr std::int64_t kOfBranch = 3, kOfHead = 2;
  condition.shared_vectors = shared ? 2 * kOfBranch : 0;
  a.modulation = {.vectors = kOfHead, .by_product = !shared};
  for (Architecture& kind : a.kinds) {
    kind.modulation = {.vectors = kind.parallel_residual_norms > 0 ? kOfBranch : 2 * kOfBranch,
                       .by_product = !shared};
  }
}

void ReadText(MappingReader& reader, Architecture& a) {
  auto fields = reader.ReadMapping("text", Need::kOptional);
  if (!fields) return;
  PartReader part(fields->node(), reader.diagnostics());
  a.text.values = part.Width("values");
  a.text.tokens =
      part.reader().ReadInteger("tokens", Need::kRequired, {1, model::kMostPositions}).value_or(1);
  a.text.products = part.reader().ReadInteger("products", Need::kOptional, {1, 2}).value_or(1);
  a.text.joined = part.Boolean("joined", false);
  part.reader().Finish();
  if (a.text.joined) a.joined_rows = a.text.tokens;
  for (Architecture& kind : a.kinds) {
    kind.joined_rows = a.joined_rows;
    if (!kind.cross.exists() || a.text.joined) continue;
    kind.cross.width = a.hidden;
    kind.cross.tokens = a.text.tokens;
  }
}

model::Prediction ReadPrediction(MappingReader& reader) {
  using model::Target;
  model::Prediction prediction;
  auto fields = reader.ReadMapping("output", Need::kOptional);
  if (!fields) return prediction;
  PartReader part(fields->node(), reader.diagnostics());
  prediction.target = part.reader()
                          .ReadWord<Target>("kind", Need::kRequired,
                                            {{"words", Target::kWords},
                                             {"classes", Target::kClasses},
                                             {"values", Target::kValues}})
                          .value_or(Target::kWords);
  prediction.count =
      prediction.target == Target::kClasses ? part.Width("count") : part.WidthOrNone("count");
  prediction.bias = part.Boolean("bias", true);
  prediction.means =
      part.reader()
          .ReadWord<bool>("pool", Need::kOptional, {{"first", false}, {"mean", true}})
          .value_or(false);
  part.reader().Finish();
  return prediction;
}

void ReadEncoder(MappingReader& reader, const Letters& letters, Architecture& a) {
  auto fields = reader.ReadMapping("encoder", Need::kOptional);
  const bool read_by_decoder = std::any_of(a.pattern.begin(), a.pattern.end(), [&a](int kind) {
    return a.kinds[static_cast<std::size_t>(kind)].cross.exists();
  });
  if (a.text.exists() && !fields) return;
  if (read_by_decoder != fields.has_value()) {
    reader.Report(fields ? "encoder" : "pattern", "model.impossible",
                  fields ? "the model has an encoder, but no block has cross-attention that reads "
                           "the encoder"
                         : "the model has cross-attention, but no encoder",
                  "write 'encoder: {block: E, layers: 24, tokens: 512}' and blocks with a mixer of "
                  "'kind: cross'");
  }
  if (!fields) return;
  a.encoder.layers =
      fields->ReadInteger("layers", Need::kRequired, {1, model::kMostLayers}).value_or(1);
  a.encoder.tokens =
      fields->ReadInteger("tokens", Need::kRequired, {1, model::kMostPositions}).value_or(1);
  a.encoder.input = ReadValueInput(*fields);
  const auto block = fields->ReadText("block", Need::kRequired);
  fields->Finish();
  if (!block) return;
  const auto letter = block->size() == 1 ? letters.find((*block)[0]) : letters.end();
  if (letter == letters.end()) {
    fields->Report("block", "model.impossible",
                   fmt::format("the block '{}' is not defined", *block),
                   "write a letter that is defined in 'blocks'");
    return;
  }
  Architecture kind = a.kinds[static_cast<std::size_t>(letter->second)];
  if (kind.cross.exists() || !kind.attends_both_ways) {
    fields->Report("block", "model.impossible",
                   "a block of an encoder must have attention without a causal mask, and cannot "
                   "have cross-attention",
                   "write 'causal: false' in the mixer of the block, and remove cross-attention");
  }
  kind.own_length = a.encoder.tokens;
  a.pattern.insert(a.pattern.begin(), static_cast<std::size_t>(a.encoder.layers),
                   static_cast<int>(a.kinds.size()));
  a.kinds.push_back(std::move(kind));
  for (Architecture& reading : a.kinds) {
    if (!reading.cross.exists()) continue;
    reading.cross.width = a.hidden;
    reading.cross.tokens = a.encoder.tokens;
  }
}

void ReadTowers(MappingReader& reader, Architecture& a) {
  const auto towers = reader.ReadNode("towers", Need::kOptional, "a mapping of names");
  if (!towers) return;
  for (const auto& [name, node] : towers->entries()) {
    PartReader part(node, reader.diagnostics());
    MappingReader& fields = part.reader();
    const auto count = [&](std::string_view key, Need need, std::int64_t least,
                           std::int64_t absent) {
      return fields.ReadInteger(key, need, {least, model::kMostPositions}).value_or(absent);
    };
    model::Tower tower;
    tower.hidden = part.Width("hidden_size");
    tower.layers = count("layers", Need::kRequired, 0, 0);
    tower.heads = part.Width("heads");
    tower.head_size = part.Width("head", tower.hidden / tower.heads);
    tower.feed_forward = part.Width("width");
    tower.gated = part.Boolean("gated", false);
    tower.biased = part.Boolean("bias", true);
    tower.layer_norm =
        fields.ReadWord<bool>("norm", Need::kOptional, {{"layer", true}, {"rms", false}})
            .value_or(true);
    tower.patch = count("patch", Need::kRequired, 1, 1);
    tower.patch_bias = part.Boolean("patch_bias", true);
    tower.positions = count("positions", Need::kOptional, 0, 0);
    tower.last_norm = part.Boolean("last_norm", false);
    if (auto merge = fields.ReadMapping("merge", Need::kRequired)) {
      PartReader into(merge->node(), reader.diagnostics());
      tower.merged = into.Width("tokens", 1);
      tower.merge_hidden = into.Width("width", tower.merged * tower.hidden);
      tower.mergers = into.Width("count", 1);
      tower.joined_norms = into.WidthOrNone("joined_norms");
      into.reader().Finish();
    }
    tower.patches = count("patches", Need::kRequired, 1, 1);
    tower.image = count("image", Need::kOptional, 1, tower.patches);
    tower.window = count("window", Need::kOptional, 0, 0);
    tower.full_layers = count("full_layers", Need::kOptional, 0, 0);
    tower.frozen = part.Boolean("frozen", false);
    fields.Finish();
    if (tower.joined_norms > tower.mergers || tower.patches % tower.merged != 0) {
      fields.Report(
          "merge", "model.impossible",
          fmt::format("patches ({}) must be divisible by merge.tokens ({}), and joined_norms ({}) "
                      "must be at most merge.count ({})",
                      tower.patches, tower.merged, tower.joined_norms, tower.mergers),
          "set patches to a multiple of merge.tokens, and joined_norms to at most merge.count");
    }
    if (tower.full_layers > tower.layers || (tower.full_layers > 0 && tower.window == 0)) {
      fields.Report(
          "full_layers", "model.impossible",
          fmt::format("full_layers ({}) must be at most layers ({}), and needs a window of at "
                      "least one patch, not {}",
                      tower.full_layers, tower.layers, tower.window),
          "set window to a number of patches, and full_layers to at most the number of layers");
    }
    if (tower.layers > 0) a.towers.push_back(tower);
  }
  if (a.towers.size() > 1) {
    reader.Report("towers", "model.impossible",
                  "'towers' has several towers, but stepcast supports only one",
                  "keep only one tower in 'towers'");
  }
}

}  // namespace stepcast::scenario
