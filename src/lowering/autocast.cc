#include "src/lowering/autocast.h"

namespace stepcast::lowering {

void Autocast::AddLayers() {
  const plan::Training& training = step_.plan().training;
  const DataType computed = plan::ComputeType(training.precision);
  const model::Model& model = step_.model();
  if (!training.autocast || model.is_layer_list()) return;
  ProgramBuilder& builder = step_.builder();
  layer_of_.assign(model.tensors.size(), kNoLayer);
  for (const model::Layer& layer : model.layers) {
    std::vector<Copy>& copies = layers_.emplace_back();
    for (const int index : layer.tensors) {
      const model::Tensor& tensor = model.tensors[index];
      if (tensor.shape.size() < 2 || layer.kind == model::LayerKind::kEmbedding) continue;
      layer_of_[index] = static_cast<int>(layers_.size()) - 1;
      copies.push_back(
          {.tensor = index,
           .range = operations_.AddRange(builder.Named(tensor.name, "/autocast"), tensor.elements,
                                         computed, program::Category::kActivation)});
    }
    AddFrozen(layer, computed);
  }
}

void Autocast::AddFrozen(const model::Layer& layer, DataType computed) {
  const model::Model& model = step_.model();
  std::int64_t elements = 0;
  for (const int index : layer.frozen) {
    const model::Tensor& tensor = model.frozen[static_cast<std::size_t>(index)];
    const bool wider = SizeOf(model::FrozenType(model, index)) > SizeOf(computed);
    if (!wider || tensor.shape.size() < 2 || layer.kind == model::LayerKind::kEmbedding) continue;
    elements += tensor.elements;
  }
  if (elements == 0) return;
  ProgramBuilder& builder = step_.builder();
  layers_.back().push_back(
      {.tensor = kFrozen,
       .range = operations_.AddRange(builder.Named(builder.AddText(layer.name), "/frozen autocast"),
                                     elements, computed, program::Category::kActivation)});
}

void Autocast::CopyFrozen(const Range& target) {
  operations_.Writes(target);
  operations_.Traffic(BytesOf(target.elements, DataType::kFp32), target.size());
  operations_.Run(step_.compute(), "autocast");
}

void Autocast::CastGradient(int tensor, const Range& gradient) {
  if (layer_of_.empty() || layer_of_[tensor] == kNoLayer) return;
  const plan::Training& training = step_.plan().training;
  const DataType computed = plan::ComputeType(training.precision);
  operations_.Writes(gradient);
  const bool widens = SizeOf(computed) < SizeOf(gradient.type()) && !training.compile;
  operations_.Traffic(BytesOf(gradient.elements, computed), gradient.size(),
                      widens ? Access::kWidening : Access::kPlain);
  operations_.Run(step_.compute(), "autocast_gradient");
  for (Copy& copy : layers_[layer_of_[tensor]]) {
    if (copy.tensor == tensor) Release(copy);
  }
}

program::Elements Autocast::ReadPlace(int layer, int tensor,
                                      const program::Elements& parameter) const {
  if (layers_.empty()) return parameter;
  for (const Copy& copy : layers_[layer]) {
    if (copy.tensor == tensor) return copy.range.place;
  }
  return parameter;
}

}  // namespace stepcast::lowering
