#pragma once

#include <cstdint>
#include <span>

#include "src/base/bytes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

// The state of optimizers whose moments depend on a tensor's shape: 8-bit AdamW, Adafactor and
// Muon. For other optimizers, see plan::OptimizerBytesPerParameter.
namespace stepcast::plan {

// A tensor that an optimizer updates: a complete parameter, one rank's rows of a parameter, or a
// vector of elements of parameters.
struct OptimizerTensor {
  std::int64_t elements = 0;
  std::int64_t matrices = 0, rows = 0, columns = 0;  // zero for a vector
  bool embedding = false;                            // the weight of an nn.Embedding
  bool of_block = false;                             // part of a block
};

// Returns the tensor with `elements` elements of the model's tensor `index`: complete rows (or
// matrices of a three-dimensional tensor), unless the framework flattens parameters. If `index` is
// -1, the elements belong to several tensors.
OptimizerTensor OptimizerTensorOf(const Plan& plan, const model::Model& model, int index,
                                  std::int64_t elements);

// Returns whether Muon updates the tensor. AdamW updates embeddings, the head and vectors
// (torch.optim.Muon's documentation; megatron/core/optimizer/muon.py).
bool TakesMuon(const OptimizerTensor& tensor);

// Returns whether the tensor's moments have 8 bits. Only tensors of at least 4,096 elements have
// 8-bit moments.
// * bitsandbytes (bitsandbytes/optim/optimizer.py, min_8bit_size) stores the moments of smaller
//   tensors in FP32. The moments of embeddings are also FP32, because the Trainer of transformers
//   registers embeddings (trainer.py, create_optimizer).
// * torchao (torchao/optim/adam.py, _new_buffer) stores the moments of smaller tensors, and of
//   tensors that are not a multiple of the block size, in the parameters' type.
bool HasShortMoments(const Plan& plan, const OptimizerTensor& tensor);

// Returns the size of the tensor's moments. 8-bit moments have an FP32 scale for each block of 256
// values. In torchao, each moment also has a table of 256 FP32 values.
Bytes MomentBytes(const Plan& plan, const OptimizerTensor& tensor);

// Return the size of the moments and master weights of one tensor, or of the complete parameters
// with these indices. The overload for complete parameters supports every optimizer. A rank that
// shards these parameters has at least its fraction of the size.
Bytes OptimizerStateBytes(const Plan& plan, const OptimizerTensor& tensor);
Bytes OptimizerStateBytes(const Plan& plan, const model::Model& model,
                          std::span<const int> parameters);

}  // namespace stepcast::plan
