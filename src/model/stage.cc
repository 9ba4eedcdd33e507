#include "src/model/stage.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::model {

StageModel StageOf(const Model& whole, int first_layer, int end_layer) {
  StageModel stage{
      .model = {.name = whole.name, .tensors = {}, .layers = {}, .source = whole.source},
      .first_layer = first_layer,
      .tensors = {}};
  const auto layers = std::span(whole.layers)
                          .subspan(static_cast<std::size_t>(first_layer),
                                   static_cast<std::size_t>(end_layer - first_layer));
  for (const Layer& layer : layers) {
    stage.tensors.insert(stage.tensors.end(), layer.tensors.begin(), layer.tensors.end());
  }
  std::sort(stage.tensors.begin(), stage.tensors.end());
  stage.tensors.erase(std::unique(stage.tensors.begin(), stage.tensors.end()), stage.tensors.end());
  for (const int tensor : stage.tensors) {
    stage.model.tensors.push_back(whole.tensors[static_cast<std::size_t>(tensor)]);
  }
  for (const Layer& layer : layers) {
    Layer& own = stage.model.layers.emplace_back(layer);
    for (int& tensor : own.tensors) {
      tensor =
          static_cast<int>(std::lower_bound(stage.tensors.begin(), stage.tensors.end(), tensor) -
                           stage.tensors.begin());
    }
  }
  return stage;
}

int Blocks(const Model& model) {
  return static_cast<int>(
      std::count_if(model.layers.begin(), model.layers.end(),
                    [](const Layer& layer) { return layer.kind == LayerKind::kBlock; }));
}

std::vector<int> StageLayers(const Model& whole, std::span<const std::int64_t> blocks) {
  std::vector<int> begins{0};
  int layer = 0;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    std::int64_t left = blocks[stage];
    while (left > 0) {
      STEPCAST_CHECK(layer < static_cast<int>(whole.layers.size()),
                     "stages have the model's blocks");
      if (whole.layers[static_cast<std::size_t>(layer++)].kind == LayerKind::kBlock) --left;
    }
    begins.push_back(layer);
  }
  for (std::size_t rest = static_cast<std::size_t>(layer); rest < whole.layers.size(); ++rest) {
    STEPCAST_CHECK(whole.layers[rest].kind != LayerKind::kBlock, "stages have the model's blocks");
  }
  begins.back() = static_cast<int>(whole.layers.size());
  return begins;
}

}  // namespace stepcast::model
