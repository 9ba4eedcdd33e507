#include "src/lowering/autocast.h"

namespace stepcast::lowering {

void Autocast::AddLayers() {
  const plan::Training& training = step_.plan().training;
  const DataType computed = plan::ComputeType(training.precision);
  const model::Model& model = step_.model();
  if (!training.autocast || model.is_layer_list()) return;
  ProgramBuilder& builder = step_.builder();
  cast_.assign(model.tensors.size(), false);
  for (const model::Layer& layer : model.layers) {
    LayerCasts& casts = layers_.emplace_back();
    std::int64_t end = 0;
    for (const int index : layer.tensors) {
      const model::Tensor& tensor = model.tensors[index];
      if (tensor.shape.size() < 2 || layer.kind == model::LayerKind::kEmbedding) continue;
      casts.pieces.push_back({.tensor = index, .elements = tensor.elements, .offset = end});
      end += tensor.elements;
      cast_[index] = true;
    }
    casts.copies = operations_.AddRange(builder.Named(layer.name, "/autocast weights"), end,
                                        computed, program::Category::kActivation);
  }
}

void Autocast::WriteGradientCast(const Range& gradient) {
  const plan::Training& training = step_.plan().training;
  const DataType computed = plan::ComputeType(training.precision);
  operations_.Writes(gradient);
  const bool widens = SizeOf(computed) < SizeOf(gradient.type()) && !training.compile;
  operations_.Traffic(BytesOf(gradient.elements, computed), gradient.size(),
                      widens ? Access::kWidening : Access::kPlain);
  operations_.Run(step_.compute(), "autocast_gradient");
}

}  // namespace stepcast::lowering
