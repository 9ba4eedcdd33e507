#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/model/model.h"

// In which order gradients become ready in backward, and which of them share one collective.
namespace stepcast::lowering {

// Tensors (indices into Model::tensors) in the order in which their gradients are complete: layers
// from last to first, a layer's kernels in order; a tied tensor when its last contribution is
// there. Tensors that one kernel completes stand in reverse registration order, as autograd's
// hooks of one node do. Every tensor once. `work_of_layer`: which of the works each layer does.
std::vector<int> GradientReadyOrder(const model::Model& model,
                                    std::span<const model::LayerWork> works,
                                    std::span<const int> work_of_layer);

struct Bucket {
  std::span<const int> tensors;  // of the order that was cut into buckets
  std::int64_t elements = 0;
};

// PyTorch's rule (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size):
// append tensors to the open bucket; close it when, after appending, its bytes reach the limit. A
// bucket may thus exceed the limit by up to one tensor. The first bucket has its own limit. A limit
// of 0 B gives one bucket per tensor. The buckets point into `order`.
std::vector<Bucket> AssignBuckets(const model::Model& model, std::span<const int> order,
                                  std::int64_t bytes_per_element, Bytes first_limit, Bytes limit);

}  // namespace stepcast::lowering
