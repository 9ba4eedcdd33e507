#pragma once

#include <cstdint>
#include <span>

#include "src/base/bytes.h"
#include "src/model/model.h"
#include "src/plan/plan.h"

// What optimizers keep for a tensor whose moments depend on its shape: AdamW with moments of 8
// bits, Adafactor, Muon. plan::OptimizerBytesPerParameter has the law of the others.
namespace stepcast::plan {

// A tensor as an optimizer has it: a parameter, the rows of it that a rank holds, or a vector of
// elements of it.
struct OptimizerTensor {
  std::int64_t elements = 0;
  std::int64_t matrices = 0, rows = 0, columns = 0;  // zero: it is a vector
  bool embedding = false;                            // the weight of an nn.Embedding
  bool of_block = false;                             // neither embeddings nor the head
};

// `elements` of the tensor `index` of the model, of which a rank holds whole rows (or whole
// matrices of three dimensions) unless the framework flattens parameters. `index` -1: of several
// tensors behind one another.
OptimizerTensor OptimizerTensorOf(const Plan& plan, const model::Model& model, int index,
                                  std::int64_t elements);

// Whether Muon orthogonalises the tensor's update; AdamW has the others: embeddings, the head,
// vectors (torch.optim.Muon's documentation; megatron/core/optimizer/muon.py).
bool TakesMuon(const OptimizerTensor& tensor);

// Whether moments of the tensor are kept in 8 bits: tensors of 4,096 elements and more.
//  * bitsandbytes (bitsandbytes/optim/optimizer.py, min_8bit_size) has the others in FP32, and
//    embeddings, which transformers' Trainer registers as such (trainer.py, create_optimizer).
//  * torchao (torchao/optim/adam.py, _new_buffer) has the others, and such as are no whole number
//    of blocks, in the type of the parameters.
bool HasShortMoments(const Plan& plan, const OptimizerTensor& tensor);

// Bytes of the tensor's moments. Those in 8 bits have an FP32 scale for each block of 256, and in
// torchao a table of 256 FP32 values for each moment.
Bytes MomentBytes(const Plan& plan, const OptimizerTensor& tensor);

// Bytes of moments and of master weights: of a tensor; of whole parameters of the model, by their
// places in it, with every optimizer. What ranks have that share out parameters is never less than
// their part of the latter.
Bytes OptimizerStateBytes(const Plan& plan, const OptimizerTensor& tensor);
Bytes OptimizerStateBytes(const Plan& plan, const model::Model& model,
                          std::span<const int> parameters);

}  // namespace stepcast::plan
