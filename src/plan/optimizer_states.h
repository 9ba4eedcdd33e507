#pragma once

#include <cstdint>
#include <span>

#include "src/base/bytes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

// The state of optimizers whose moments depend on a tensor's shape: 8-bit AdamW, Adafactor and
// Muon. For other optimizers, see plan::OptimizerBytesPerParameter.
namespace stepcast::plan {

// A tensor as an optimizer sees it. It is a whole parameter, the rows of a parameter that one rank
// holds, or a vector with elements of a parameter.
struct OptimizerTensor {
  std::int64_t elements = 0;
  std::int64_t matrices = 0, rows = 0, columns = 0;  // zero for a vector
  bool embedding = false;                            // the weight of an nn.Embedding
  bool of_block = false;                             // not of the embedding or the head
};

// Returns the tensor that holds `elements` elements of the model's tensor `index`. A rank holds
// whole rows (or whole matrices of a three-dimensional tensor) unless the framework flattens
// parameters. If `index` is -1, the tensor packs several of the model's tensors.
OptimizerTensor OptimizerTensorOf(const Plan& plan, const model::Model& model, int index,
                                  std::int64_t elements);

// Returns whether Muon orthogonalizes the tensor's update. AdamW updates all other tensors:
// embeddings, the head and vectors (torch.optim.Muon's documentation;
// megatron/core/optimizer/muon.py).
bool TakesMuon(const OptimizerTensor& tensor);

// Returns whether the tensor's moments have 8 bits. Only tensors of at least 4,096 elements have
// such moments.
// * bitsandbytes (bitsandbytes/optim/optimizer.py, min_8bit_size) keeps the moments of all other
//   tensors in FP32. It also does so for embeddings, which transformers' Trainer registers with it
//   (trainer.py, create_optimizer).
// * torchao (torchao/optim/adam.py, _new_buffer) keeps the moments of all other tensors in the
//   parameters' type, and also those of tensors that are not a whole number of blocks.
bool HasShortMoments(const Plan& plan, const OptimizerTensor& tensor);

// Returns the size of the tensor's moments. 8-bit moments have an FP32 scale for each block of 256
// values. The moments of torchao also have a table of 256 FP32 values each.
Bytes MomentBytes(const Plan& plan, const OptimizerTensor& tensor);

// These functions return the size of moments and master weights. The first function works for one
// tensor. The second function works for whole parameters, given by their indices, and for every
// optimizer. A rank that shards parameters never holds less than its part of the second function's
// result.
Bytes OptimizerStateBytes(const Plan& plan, const OptimizerTensor& tensor);
Bytes OptimizerStateBytes(const Plan& plan, const model::Model& model,
                          std::span<const int> parameters);

}  // namespace stepcast::plan
