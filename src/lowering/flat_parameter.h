#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/sharded_state.h"
#include "src/model/model.h"

// PyTorch's FlatParameter: a unit's tensors one behind the other, cut into equal shards
// (torch/distributed/fsdp/_flat_param.py, read at pytorch/pytorch@01caf79e047f).
namespace stepcast::lowering {

struct FlatTensor {
  int tensor = 0;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  // elements before it in the flat parameter
};

struct FlatParameter {
  std::vector<FlatTensor> tensors{};  // registration order; empty ones are left out
  std::int64_t exact = 0;             // sum of the tensors
  std::int64_t elements = 0;          // with what lies between them and behind the last
  std::int64_t shard = 0;             // of each rank: elements / ranks, rounded up
  std::int64_t ranks = 1;

  // What is gathered and reduce-scattered. Where it is more than `elements`, a gradient must be
  // copied into padded memory first.
  std::int64_t padded() const { return shard * ranks; }
};

// `alignment`: every tensor begins at a multiple of so many elements, and the end is filled up to a
// multiple of the ranks; 0: nothing of the kind.
FlatParameter Flatten(const model::Model& model, std::span<const int> tensors, std::int64_t ranks,
                      std::int64_t alignment);

// The parts of the shard of rank `index`.
std::vector<ShardPart> PartsOf(const FlatParameter& flat, std::int64_t index);

// The rank that has parts of the most tensors in its shards of all of these, which have as many
// ranks; the first of several such.
std::int64_t FullestRank(std::span<const FlatParameter* const> parameters);

}  // namespace stepcast::lowering
