#include "src/lowering/partitioned_tensors.h"

#include <algorithm>

namespace stepcast::lowering {

PartitionedTensors::PartitionedTensors(const model::Model& model, std::int64_t ranks,
                                       std::int64_t rank)
    : ranks(ranks), rank(rank) {
  tensors.reserve(model.tensors.size());
  for (const model::Tensor& whole : model.tensors) {
    PartitionedTensor& tensor = tensors.emplace_back();
    tensor.shard = Shard(whole.elements, ranks);
    const std::int64_t part = tensor.shard.length();
    tensor.offset = elements;
    tensor.first = rank * part;
    tensor.own = std::clamp<std::int64_t>(whole.elements - tensor.first, 0, part);
    elements += part;
    padding += tensor.shard.PaddingOfShard(1);
  }
}

}  // namespace stepcast::lowering
