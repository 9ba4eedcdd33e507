#pragma once

#include <cstdint>
#include <vector>

#include "src/lowering/range.h"
#include "src/lowering/shard.h"
#include "src/model/model.h"

// How DeepSpeed's stage 3 partitions: every tensor is cut for all ranks, and a rank's parts lie
// behind one another in its flat tensors, in registration order
// (deepspeed/runtime/zero/partition_parameters.py).
namespace stepcast::lowering {

struct PartitionedTensor {
  Shard shard;
  std::int64_t offset = 0;  // of the part in the rank's flat tensors
  std::int64_t first = 0;   // element of the tensor that the rank's part begins with
  std::int64_t own = 0;     // elements of the part that are not padding
};

struct PartitionedTensors {
  PartitionedTensors(const model::Model& model, std::int64_t ranks, std::int64_t rank);

  // The rank's part of a tensor among its flat tensors.
  Range PartOf(int tensor, const Range& flat) const {
    return flat.Part(tensors[tensor].offset, tensors[tensor].shard.length());
  }

  std::vector<PartitionedTensor> tensors;  // as the model's
  std::int64_t ranks, rank;
  std::int64_t elements = 0;  // of all parts of a rank
  std::int64_t padding = 0;   // of them
};

}  // namespace stepcast::lowering
