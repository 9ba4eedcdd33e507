#pragma once

#include <cstdint>
#include <span>

#include "src/base/bytes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

// The state of optimizers whose moments depend on a tensor's shape: 8-bit AdamW, Adafactor, Muon.
// For other optimizers, see plan::OptimizerBytesPerParameter.
namespace stepcast::plan {

// A tensor as an optimizer sees it: a parameter, the rows of a parameter that one rank holds, or a
// vector of its elements.
struct OptimizerTensor {
  std::int64_t elements = 0;
  std::int64_t matrices = 0, rows = 0, columns = 0;  // zero for a vector
  bool embedding = false;                            // the weight of an nn.Embedding
  bool of_block = false;                             // not of an embedding or the head
};

// Returns `elements` elements of the model's tensor `index`. A rank holds whole rows (or whole
// matrices of a three-dimensional tensor) unless the framework flattens parameters. -1 for `index`
// means several packed tensors.
OptimizerTensor OptimizerTensorOf(const Plan& plan, const model::Model& model, int index,
                                  std::int64_t elements);

// Returns whether Muon orthogonalizes the tensor's update. AdamW updates all other tensors:
// embeddings, the head, vectors (torch.optim.Muon's documentation;
// megatron/core/optimizer/muon.py).
bool TakesMuon(const OptimizerTensor& tensor);

// Whether the tensor's moments have 8 bits: tensors of at least 4,096 elements.
//  * bitsandbytes (bitsandbytes/optim/optimizer.py, min_8bit_size) keeps the others in FP32, and
//    also embeddings, which transformers' Trainer registers as such (trainer.py, create_optimizer).
//  * torchao (torchao/optim/adam.py, _new_buffer) keeps the others in the parameters' type, and
//    also tensors that are not a whole number of blocks.
bool HasShortMoments(const Plan& plan, const OptimizerTensor& tensor);

// Returns the size of the tensor's moments. 8-bit moments have an FP32 scale for each block of 256
// values. torchao's also have a table of 256 FP32 values for each moment.
Bytes MomentBytes(const Plan& plan, const OptimizerTensor& tensor);

// Returns the size of moments and master weights. The first function works for one tensor; the
// second for whole parameters, given by their indices, and for every optimizer. A rank that shards
// parameters never holds less than its part of the latter.
Bytes OptimizerStateBytes(const Plan& plan, const OptimizerTensor& tensor);
Bytes OptimizerStateBytes(const Plan& plan, const model::Model& model,
                          std::span<const int> parameters);

}  // namespace stepcast::plan
