#include "src/model/stage.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::model {

namespace {

// The tensors that the layers use, by `used`, in the order of `all`: `kept` gets them, and their
// indices in `all` come back.
std::vector<int> KeepUsed(const Model& whole, std::span<const int> layers,
                          std::vector<int> Layer::*used, const std::vector<Tensor>& all,
                          std::vector<Tensor>& kept) {
  std::vector<int> indices;
  for (const int layer : layers) {
    const std::vector<int>& own = whole.layers[static_cast<std::size_t>(layer)].*used;
    indices.insert(indices.end(), own.begin(), own.end());
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  for (const int tensor : indices) kept.push_back(all[static_cast<std::size_t>(tensor)]);
  return indices;
}

// Indices of all tensors to those among `kept`.
void Renumber(std::vector<int>& tensors, const std::vector<int>& kept) {
  for (int& tensor : tensors) {
    tensor = static_cast<int>(std::lower_bound(kept.begin(), kept.end(), tensor) - kept.begin());
  }
}

}  // namespace

StageModel StageOf(const Model& whole, std::span<const int> layers) {
  StageModel stage{.model = {.name = whole.name,
                             .tensors = {},
                             .frozen = {},
                             .layers = {},
                             .source = whole.source},
                   .layers = {layers.begin(), layers.end()},
                   .tensors = {}};
  stage.tensors = KeepUsed(whole, layers, &Layer::tensors, whole.tensors, stage.model.tensors);
  const std::vector<int> frozen =
      KeepUsed(whole, layers, &Layer::frozen, whole.frozen, stage.model.frozen);
  for (const int layer : layers) {
    Layer& own = stage.model.layers.emplace_back(whole.layers[static_cast<std::size_t>(layer)]);
    Renumber(own.tensors, stage.tensors);
    Renumber(own.frozen, frozen);
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
    if (begins.size() == 1 && of_chunk == 0) {
      while (whole.layers[static_cast<std::size_t>(layer)].kind != LayerKind::kBlock) ++layer;
    }
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
