#include "src/model/stage.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "src/base/check.h"
#include "src/model/architecture.h"

namespace stepcast::model {
Model Localised(const Model& whole, const parallel::Grids& grids) {
  Model local = whole;
  const auto divide = [&grids](Tensor& tensor) {
    for (const Split& split : tensor.splits) {
      if (split.dimension == Split::kOwn) continue;
      const std::int64_t ranks = grids.Degree(split.axis);
      std::int64_t& extent = tensor.shape[static_cast<std::size_t>(split.dimension)];
      extent = (extent + ranks - 1) / ranks;
    }
    tensor.elements = 1;
    for (const std::int64_t size : tensor.shape) tensor.elements *= size;
  };
  for (Tensor& tensor : local.tensors) divide(tensor);
  for (Tensor& tensor : local.frozen) divide(tensor);
  return local;
}

std::int64_t PartOf(const Tensor& tensor, const parallel::Grids& grids,
                    const parallel::RankGrid::Coordinates& at) {
  std::int64_t part = 0;
  for (const Split& split : tensor.splits) {
    part = part * grids.Degree(split.axis) + at[static_cast<std::size_t>(split.axis)];
  }
  return part;
}

ActiveParameters ActiveParametersOf(const Model& model) {
  const auto* architecture = std::get_if<Architecture>(&model.source);
  const auto active = [&](const Tensor& tensor) {
    if (tensor.group != ParameterGroup::kExperts || architecture == nullptr) return tensor.elements;
    const Experts& experts = architecture->experts;
    return tensor.elements / experts.count * experts.per_token;
  };
  ActiveParameters parameters;
  for (const std::vector<Tensor>* tensors : {&model.tensors, &model.frozen}) {
    for (const Tensor& tensor : *tensors) parameters.all += active(tensor);
  }
  parameters.without_input_embedding = parameters.all;
  if (architecture != nullptr && !architecture->tie_embeddings) {
    parameters.without_input_embedding -= architecture->vocabulary * architecture->hidden;
  }
  return parameters;
}

namespace {

// The tensors of `all` that the layers use, through the member `used`, in order. Appends them to
// `kept` and returns their indices in `all`.
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

// Replaces indices of all tensors by indices in `kept`.
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
                     "all chunks together must contain every block of the model");
      if (whole.layers[static_cast<std::size_t>(layer++)].kind == LayerKind::kBlock) --left;
    }
    begins.push_back(layer);
  }
  for (std::size_t rest = static_cast<std::size_t>(layer); rest < whole.layers.size(); ++rest) {
    STEPCAST_CHECK(blocks.empty() || whole.layers[rest].kind != LayerKind::kBlock,
                   "all chunks together must contain every block of the model");
  }
  if (blocks.empty()) begins.push_back(0);
  begins.back() = static_cast<int>(whole.layers.size());
  return begins;
}

}  // namespace stepcast::model
