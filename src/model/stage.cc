#include "src/model/stage.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::model {

StageModel StageOf(const Model& whole, std::span<const int> layers) {
  StageModel stage{
      .model = {.name = whole.name, .tensors = {}, .layers = {}, .source = whole.source},
      .layers = {layers.begin(), layers.end()},
      .tensors = {}};
  for (const int layer : layers) {
    const std::vector<int>& tensors = whole.layers[static_cast<std::size_t>(layer)].tensors;
    stage.tensors.insert(stage.tensors.end(), tensors.begin(), tensors.end());
  }
  std::sort(stage.tensors.begin(), stage.tensors.end());
  stage.tensors.erase(std::unique(stage.tensors.begin(), stage.tensors.end()), stage.tensors.end());
  for (const int tensor : stage.tensors) {
    stage.model.tensors.push_back(whole.tensors[static_cast<std::size_t>(tensor)]);
  }
  for (const int layer : layers) {
    Layer& own = stage.model.layers.emplace_back(whole.layers[static_cast<std::size_t>(layer)]);
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

std::vector<int> ChunkLayers(const Model& whole, std::span<const std::int64_t> blocks) {
  std::vector<int> begins{0};
  int layer = 0;
  for (const std::int64_t of_chunk : blocks) {
    std::int64_t left = of_chunk;
    while (left > 0) {
      STEPCAST_CHECK(layer < static_cast<int>(whole.layers.size()),
                     "chunks have the model's blocks");
      if (whole.layers[static_cast<std::size_t>(layer++)].kind == LayerKind::kBlock) --left;
    }
    begins.push_back(layer);
  }
  for (std::size_t rest = static_cast<std::size_t>(layer); rest < whole.layers.size(); ++rest) {
    STEPCAST_CHECK(blocks.empty() || whole.layers[rest].kind != LayerKind::kBlock,
                   "chunks have the model's blocks");
  }
  if (blocks.empty()) begins.push_back(0);
  begins.back() = static_cast<int>(whole.layers.size());
  return begins;
}

}  // namespace stepcast::model
