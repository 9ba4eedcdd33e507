#include "src/lowering/dummy_gradients.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "src/base/kernel.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

namespace stepcast::lowering {

using program::Category;

void DummyGradients::WritePrologue() {
  if (step_.model().is_layer_list() || !plan::HasTransformerEngine(step_.plan().training)) return;
  KeepOneForEachShape();
  AddOfOutputLayer();
}

void DummyGradients::KeepOneForEachShape() {
  const DataType type = step_.plan().training.parameter_dtype;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  const auto add = [&](const std::vector<model::Operation>& operations) {
    for (const model::Operation& operation : operations) {
      const Kernel& kernel = operation.kernel;
      const bool gives_weights = !operation.group && !operation.gradients.empty() &&
                                 kernel.kind == KernelKind::kGemm &&
                                 kernel.layout == ProductLayout::kWeightGradient;
      if (!gives_weights || !shapes.emplace(kernel.m, kernel.n).second) continue;
      const Index buffer = step_.builder().AddBuffer(
          "dummy gradient", BytesOf(kernel.m * kernel.n, type), Category::kWorkspace);
      step_.builder().Allocate(step_.compute(), buffer);
    }
  };
  const model::Model& model = step_.model();
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    if (model.layers[layer].kind != model::LayerKind::kBlock) continue;
    const model::LayerWork& work = step_.works()[step_.work_of(static_cast<int>(layer))];
    add(work.backward);
    add(work.backward_weight.operations);
  }
}

void DummyGradients::AddOfOutputLayer() {
  const model::Model& model = step_.model();
  of_output_layer_.resize(model.tensors.size());
  for (const model::Layer& layer : model.layers) {
    if (layer.kind != model::LayerKind::kHead) continue;
    for (const int tensor : layer.tensors) {
      if (model.tensors[tensor].shape.size() < 2) continue;
      of_output_layer_[tensor].dummy =
          operations_.AddRange(step_.builder().Named(model.tensors[tensor].name, ".dummy gradient"),
                               model.tensors[tensor].elements,
                               step_.plan().training.parameter_dtype, Category::kWorkspace);
    }
  }
}

}  // namespace stepcast::lowering
