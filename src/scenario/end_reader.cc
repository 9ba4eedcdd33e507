#include "src/scenario/end_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/dimension_reader.h"

namespace stepcast::scenario {

using model::Architecture;

namespace {

constexpr IntegerRange kPositions = {1, model::kMostPositions};
constexpr IntegerRange kPositionsOrNone = {0, model::kMostPositions};

}  // namespace

model::ValueInput ReadValueInput(MappingReader& reader) {
  model::ValueInput input;
  reader.Section("input", Need::kOptional, [&](MappingReader& fields) {
    fields.Required("values", input.values, kWidth);
    fields.Optional("taps", input.taps, kWidth);
    fields.Optional("halvings", input.halvings, {0, 8});
    fields.Optional("bias", input.bias);
    fields.Optional("positions", input.positions, kPositionsOrNone);
    fields.Optional("fixed_positions", input.fixed_positions);
    fields.Optional("class_rows", input.class_rows, kWidthOrNone);
  });
  return input;
}

void ReadCondition(MappingReader& reader, Architecture& a) {
  reader.Section("condition", Need::kOptional, [&](MappingReader& fields) {
    model::Condition& condition = a.condition;
    bool shared = false;
    fields.Required("time", condition.time, kWidth);
    fields.Optional("guidance", condition.guidance);
    fields.Optional("classes", condition.classes, kWidthOrNone);
    fields.Optional("text_width", condition.text_width, kWidthOrNone);
    fields.Optional("shared", shared);
    constexpr std::int64_t kOfBranch = 3, kOfHead = 2;
    condition.shared_vectors = shared ? 2 * kOfBranch : 0;
    a.modulation = {.vectors = kOfHead, .by_product = !shared};
    for (Architecture& kind : a.kinds) {
      kind.modulation = {.vectors = kind.parallel_residual_norms > 0 ? kOfBranch : 2 * kOfBranch,
                         .by_product = !shared};
    }
  });
}

void ReadText(MappingReader& reader, Architecture& a) {
  auto fields = reader.ReadMapping("text", Need::kOptional);
  if (!fields) return;
  fields->Required("values", a.text.values, kWidth);
  fields->Required("tokens", a.text.tokens, kPositions);
  fields->Optional("products", a.text.products, {1, 2});
  fields->Optional("joined", a.text.joined);
  fields->Finish();
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
  reader.Section("output", Need::kOptional, [&](MappingReader& fields) {
    fields.Required(
        "kind", prediction.target,
        {{"words", Target::kWords}, {"classes", Target::kClasses}, {"values", Target::kValues}});
    const bool classes = prediction.target == Target::kClasses;
    fields.Read("count", classes ? Need::kRequired : Need::kOptional, prediction.count,
                classes ? kWidth : kWidthOrNone);
    fields.Optional("bias", prediction.bias);
    fields.Optional("pool", prediction.means, {{"first", false}, {"mean", true}});
  });
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
  fields->Required("layers", a.encoder.layers, {1, model::kMostLayers});
  fields->Required("tokens", a.encoder.tokens, kPositions);
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
    MappingReader fields(node, reader.diagnostics());
    model::Tower tower;
    fields.Required("hidden_size", tower.hidden, kWidth);
    fields.Required("layers", tower.layers, kPositionsOrNone);
    fields.Required("heads", tower.heads, kWidth);
    tower.head_size = tower.hidden / tower.heads;
    fields.Optional("head", tower.head_size, kWidth);
    fields.Required("width", tower.feed_forward, kWidth);
    fields.Optional("gated", tower.gated);
    fields.Optional("bias", tower.biased);
    fields.Optional("norm", tower.layer_norm, {{"layer", true}, {"rms", false}});
    fields.Required("patch", tower.patch, kPositions);
    fields.Optional("patch_bias", tower.patch_bias);
    fields.Optional("positions", tower.positions, kPositionsOrNone);
    fields.Optional("last_norm", tower.last_norm);
    fields.Section("merge", Need::kRequired, [&](MappingReader& merge) {
      merge.Optional("tokens", tower.merged, kWidth);
      tower.merge_hidden = tower.merged * tower.hidden;
      merge.Optional("width", tower.merge_hidden, kWidth);
      merge.Optional("count", tower.mergers, kWidth);
      merge.Optional("joined_norms", tower.joined_norms, kWidthOrNone);
    });
    fields.Required("patches", tower.patches, kPositions);
    tower.image = tower.patches;
    fields.Optional("image", tower.image, kPositions);
    fields.Optional("window", tower.window, kPositionsOrNone);
    fields.Optional("full_layers", tower.full_layers, kPositionsOrNone);
    fields.Optional("frozen", tower.frozen);
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
