#include "src/model/end_tensors.h"

#include <cstdint>
#include <utility>

namespace stepcast::model {
namespace {

using Parameters = std::vector<ModuleParameter>;
using Of = ModuleParameter::Of;

// A product that is whole on every rank, with its bias.
void AppendWholeLinear(const Architecture& a, std::string_view module, std::int64_t in,
                       std::int64_t out, Parameters& parameters) {
  const bool frozen = a.lora.adapts();
  parameters.push_back({module, Of::kWeight, {out, in}, {}, false, frozen});
  parameters.push_back({module, Of::kBias, {out}, {}, false, frozen});
}

}  // namespace

InputNames InputNamesOf(const ModuleNames& names, bool of_encoder) {
  if (of_encoder) {
    return {names.encoder_input, names.encoder_input_halving, names.encoder_positions,
            names.class_rows};
  }
  return {names.input, names.input_halving, names.positions, names.class_rows};
}

void AppendTower(const Architecture& a, const Tower& tower, Parameters& parameters) {
  const ModuleNames& names = NamesOf(a);
  const bool frozen = a.lora.adapts() || tower.frozen;
  const auto append = [&](std::string_view module, std::vector<std::int64_t> shape,
                          std::int64_t biases) {
    parameters.push_back({module, Of::kWeight, std::move(shape), {}, false, frozen});
    if (biases > 0) parameters.push_back({module, Of::kBias, {biases}, {}, false, frozen});
  };
  const auto linear = [&](std::string_view module, std::int64_t times, std::int64_t in,
                          std::int64_t out) {
    append(module, {times * out, in}, tower.biased ? times * out : 0);
  };
  const auto norm = [&](std::string_view module, std::int64_t width) {
    append(module, {width}, tower.layer_norm ? width : 0);
  };
  const std::int64_t h = tower.hidden, heads = tower.heads * tower.head_size;
  append(names.tower_patch, {h, tower.patch}, tower.patch_bias ? h : 0);
  if (tower.positions > 0) append(names.tower_positions, {tower.positions, h}, 0);
  if (tower.layers > 0) {
    norm(names.tower_norm, tower.layers * 2 * h);
    linear(names.tower_query_key_value, tower.layers, h, 3 * heads);
    linear(names.tower_projection, tower.layers, heads, h);
    linear(names.tower_up, tower.layers, h, (tower.gated ? 2 : 1) * tower.feed_forward);
    linear(names.tower_down, tower.layers, tower.feed_forward, h);
  }
  if (tower.last_norm) norm(names.tower_last_norm, h);
  const std::int64_t rows = tower.merged * h;
  norm(names.tower_merge_norm,
       (tower.mergers - tower.joined_norms) * h + tower.joined_norms * rows);
  // Mergers have biases even where the layers have none.
  append(names.tower_merge_up, {tower.mergers * tower.merge_hidden, rows},
         tower.mergers * tower.merge_hidden);
  append(names.tower_merge_down, {tower.mergers * a.hidden, tower.merge_hidden},
         tower.mergers * a.hidden);
}

void AppendInput(const Architecture& a, const ValueInput& input, const InputNames& names,
                 Parameters& parameters) {
  if (!input.exists()) return;
  const bool frozen = a.lora.adapts();
  const auto convolution = [&](std::string_view module, std::int64_t times, std::int64_t in) {
    parameters.push_back(
        {module, Of::kWeight, {times * a.hidden, input.taps * in}, {}, false, frozen});
    if (!input.bias) return;
    parameters.push_back({module, Of::kBias, {times * a.hidden}, {}, false, frozen});
  };
  convolution(names.product, 1, input.values);
  if (input.halvings > 0) convolution(names.halving, input.halvings, a.hidden);
  if (input.class_rows > 0) {
    parameters.push_back({names.class_rows,
                          Of::kWeight,
                          {input.class_rows, a.hidden},
                          {},
                          false,
                          frozen,
                          ParameterGroup::kDense,
                          true});
  }
  if (input.positions > 0) {
    parameters.push_back({names.positions,
                          Of::kWeight,
                          {input.positions, a.hidden},
                          {},
                          false,
                          frozen || input.fixed_positions});
  }
}

void AppendCondition(const Architecture& a, Parameters& parameters) {
  const Condition& condition = a.condition;
  if (!condition.exists()) return;
  const ModuleNames& names = NamesOf(a);
  const auto vector = [&](std::string_view first, std::string_view second, std::int64_t in) {
    AppendWholeLinear(a, first, in, a.hidden, parameters);
    AppendWholeLinear(a, second, a.hidden, a.hidden, parameters);
  };
  vector(names.time_in, names.time_out, condition.time);
  if (condition.guidance) vector(names.guidance_in, names.guidance_out, condition.time);
  if (condition.classes > 0) {
    parameters.push_back(
        {names.classes, Of::kWeight, {condition.classes, a.hidden}, {}, false, a.lora.adapts()});
  }
  if (condition.text_width > 0) {
    vector(names.text_vector_in, names.text_vector_out, condition.text_width);
  }
  if (condition.shared_vectors > 0) {
    AppendWholeLinear(a, names.shared_modulation, a.hidden, condition.shared_vectors * a.hidden,
                      parameters);
  }
}

void AppendText(const Architecture& a, Parameters& parameters) {
  if (!a.text.exists()) return;
  const ModuleNames& names = NamesOf(a);
  AppendWholeLinear(a, names.text_in, a.text.values, a.hidden, parameters);
  if (a.text.products > 1) AppendWholeLinear(a, names.text_out, a.hidden, a.hidden, parameters);
}

void AppendModulation(const Architecture& a, const Modulation& modulation, std::string_view module,
                      Parameters& parameters) {
  if (!modulation.exists()) return;
  const std::int64_t width = modulation.vectors * a.hidden;
  if (modulation.by_product) {
    AppendWholeLinear(a, module, a.hidden, width, parameters);
  } else {
    parameters.push_back({module,
                          Of::kWeight,
                          {1, width},
                          {},
                          false,
                          a.lora.adapts(),
                          ParameterGroup::kDense,
                          true});
  }
}

}  // namespace stepcast::model
