#include "src/model/end_tensors.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace stepcast::model {

namespace {

using Of = ModuleParameter::Of;

}  // namespace

InputNames InputNamesOf(const ModuleNames& names, bool of_encoder) {
  if (of_encoder) {
    return {names.encoder_input, names.encoder_input_halving, names.encoder_positions,
            names.class_rows};
  }
  return {names.input, names.input_halving, names.positions, names.class_rows};
}

void AppendTower(const Tower& tower, ParameterList& parameters) {
  const Architecture& a = parameters.architecture();
  const ModuleNames& names = NamesOf(a);
  const std::size_t before = parameters.list().size();
  const auto append = [&](std::string_view module, ParameterList::Shape shape,
                          std::int64_t biases) {
    parameters.AddCopied(module, std::move(shape));
    if (biases > 0) parameters.AddCopied(module, {biases}, Of::kBias);
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
  for (std::size_t i = before; i < parameters.list().size(); ++i) {
    parameters.list()[i].frozen |= tower.frozen;
  }
}

void AppendInput(const ValueInput& input, const InputNames& names, ParameterList& parameters) {
  if (!input.exists()) return;
  const std::int64_t hidden = parameters.architecture().hidden;
  const auto convolution = [&](std::string_view module, std::int64_t times, std::int64_t in) {
    parameters.AddCopied(module, {times * hidden, input.taps * in});
    if (input.bias) parameters.AddCopied(module, {times * hidden}, Of::kBias);
  };
  convolution(names.product, 1, input.values);
  if (input.halvings > 0) convolution(names.halving, input.halvings, hidden);
  if (input.class_rows > 0) {
    parameters.AddCopied(names.class_rows, {input.class_rows, hidden}, Of::kWeight, true);
  }
  if (input.positions > 0) {
    parameters.AddCopied(names.positions, {input.positions, hidden});
    parameters.list().back().frozen |= input.fixed_positions;
  }
}

void AppendCondition(ParameterList& parameters) {
  const Architecture& a = parameters.architecture();
  const Condition& condition = a.condition;
  if (!condition.exists()) return;
  const ModuleNames& names = NamesOf(a);
  const auto vector = [&](std::string_view first, std::string_view second, std::int64_t in) {
    parameters.AddCopiedLinear(first, in, a.hidden);
    parameters.AddCopiedLinear(second, a.hidden, a.hidden);
  };
  vector(names.time_in, names.time_out, condition.time);
  if (condition.guidance) vector(names.guidance_in, names.guidance_out, condition.time);
  if (condition.classes > 0) parameters.AddCopied(names.classes, {condition.classes, a.hidden});
  if (condition.text_width > 0) {
    vector(names.text_vector_in, names.text_vector_out, condition.text_width);
  }
  if (condition.shared_vectors > 0) {
    parameters.AddCopiedLinear(names.shared_modulation, a.hidden,
                               condition.shared_vectors * a.hidden);
  }
}

void AppendText(ParameterList& parameters) {
  const Architecture& a = parameters.architecture();
  if (!a.text.exists()) return;
  const ModuleNames& names = NamesOf(a);
  parameters.AddCopiedLinear(names.text_in, a.text.values, a.hidden);
  if (a.text.products > 1) parameters.AddCopiedLinear(names.text_out, a.hidden, a.hidden);
}

void AppendModulation(std::string_view module, ParameterList& parameters) {
  const Architecture& a = parameters.architecture();
  if (!a.modulation.exists()) return;
  const std::int64_t width = a.modulation.vectors * a.hidden;
  if (a.modulation.by_product) {
    parameters.AddCopiedLinear(module, a.hidden, width);
  } else {
    parameters.AddCopied(module, {1, width}, Of::kWeight, true);
  }
}

}  // namespace stepcast::model
