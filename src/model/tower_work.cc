#include "src/model/tower_work.h"

#include "src/model/module_positions.h"

namespace stepcast::model {

TowerWork::TowerWork(const Architecture& a, const Tower& tower, const WorkOptions& options,
                     const std::vector<ModuleParameter>& parameters, LayerTape& tape)
    : a_(a),
      tower_(tower),
      options_(OptionsOf(tower, options, tower.image)),
      names_(NamesOf(a)),
      parameters_(parameters),
      tape_(tape),
      operators_(options_, tape),
      within_windows_(OptionsOf(tower, options, tower.window), tape) {}

Operand TowerWork::Run() {
  if (tower_.frozen) tape_.BeginFrozen();
  const Operand rows = Rows();
  if (tower_.frozen) tape_.EndFrozen();
  return rows;
}

Operand TowerWork::Rows() {
  const std::int64_t patches = options_.micro_batch_size * tower_.patches;
  Operand x = operators_.Linear(operators_.Values("pixels", tower_.patch, patches),
                                names_.tower_patch, tower_.hidden, Of(names_.tower_patch, true));
  if (tower_.positions > 0) {
    x = operators_.AddPositions(x, names_.tower_positions, tower_.positions,
                                Of(names_.tower_positions, true).weight);
  }
  for (std::int64_t layer = 0; layer < tower_.layers; ++layer) x = Layer(x, layer);
  if (tower_.last_norm) x = Norm(x, names_.tower_last_norm, true);
  x = Norm(x, names_.tower_merge_norm, true);
  const Operand rows{.value = x.value,
                     .width = x.width * tower_.merged,
                     .tokens = x.tokens / tower_.merged,
                     .fp32 = x.fp32};
  const std::int64_t mergers = tower_.mergers;
  const Operand up = operators_.Linear(rows, names_.tower_merge_up, mergers * tower_.merge_hidden,
                                       Of(names_.tower_merge_up, true));
  return operators_.Linear(operators_.Gelu(up, "visual.merger.act_fn"), names_.tower_merge_down,
                           a_.hidden, Of(names_.tower_merge_down, true));
}

// Images or windows count as documents, in which every patch sees every other.
WorkOptions TowerWork::OptionsOf(const Tower& tower, WorkOptions options, std::int64_t length) {
  options.sequence_length = tower.patches;
  options.tensor = 1;
  options.sequence_parallel = false;
  options.context = {};
  options.documents.clear();
  if (length > 0 && length < tower.patches) options.documents.push_back({length, 1});
  return options;
}

ModulePositions TowerWork::Of(std::string_view module, bool completes) const {
  ModulePositions positions = Find(parameters_, module);
  if (completes || positions.frozen) return positions;
  positions.gradient_later = true;
  if (positions.bias >= 0) {
    positions.bias = -1;
    positions.frozen_bias = true;
  }
  return positions;
}
Operand TowerWork::Norm(const Operand& x, std::string_view module, bool completes) {
  ModulePositions positions = Find(parameters_, module);
  if (!completes) positions = {.frozen = true, .frozen_bias = positions.biased()};
  return operators_.Norm(x, module,
                         tower_.layer_norm ? Normalization::kLayerNorm : Normalization::kRmsNorm,
                         positions);
}

Operand TowerWork::Layer(const Operand& x, std::int64_t layer) {
  const bool first = layer == 0;
  const std::int64_t heads = tower_.heads * tower_.head_size;
  const Operand made =
      operators_.Linear(Norm(x, names_.tower_norm, first), names_.tower_query_key_value, 3 * heads,
                        Of(names_.tower_query_key_value, first));
  const AttentionShape shape{.heads = tower_.heads,
                             .kv_heads = tower_.heads,
                             .head_size = tower_.head_size,
                             .causal = false};
  const bool windowed = tower_.window > 0 && layer < tower_.layers - tower_.full_layers;
  LayerOperators& operators = windowed ? within_windows_ : operators_;
  const Operand attended = FlashGeneration(options_.attention) > 0
                               ? operators.FlashAttention(made, "visual.attn.core", shape)
                               : operators.MathAttention(made, "visual.attn.core", shape);
  const Operand between =
      operators_.Add(x,
                     operators_.Linear(attended, names_.tower_projection, tower_.hidden,
                                       Of(names_.tower_projection, first)),
                     "visual.attn.residual");
  const Operand normalised = Norm(between, names_.tower_norm, false);
  const ModulePositions of_up = Of(names_.tower_up, first);
  Operand inside;
  if (tower_.gated) {
    const std::vector<Operand> both =
        operators_.Linears(normalised, names_.tower_up,
                           {{names_.tower_up, tower_.feed_forward, of_up},
                            {"visual.mlp.gate", tower_.feed_forward, {.frozen = true}, true}},
                           Outputs::kSideBySide);
    inside = operators_.GatedSilu(both[0], both[1], "visual.mlp.act_fn");
  } else {
    inside =
        operators_.Gelu(operators_.Linear(normalised, names_.tower_up, tower_.feed_forward, of_up),
                        "visual.mlp.act_fn");
  }
  return operators_.Add(
      between,
      operators_.Linear(inside, names_.tower_down, tower_.hidden, Of(names_.tower_down, first)),
      "visual.mlp.residual");
}

}  // namespace stepcast::model
