#pragma once

#include <span>

#include "src/lowering/training_step.h"
#include "src/lowering/updated_tensors.h"

// Muon: matrices of blocks move by the momentum of their gradient, brought near to an orthogonal
// matrix by five Newton-Schulz steps (Jordan 2024). One step takes X of m x n, m <= n, to
// a X + (b A + c A A) X with A = X X^T: products of 2 m m n, 2 m m m and 2 m m n operations.
namespace stepcast::lowering {

// Writes the update of the matrices (plan::TakesMuon), as WriteFrameworkUpdate; returns the tensors
// that are left to AdamW.
//  * kTorch (torch/optim/_muon.py, torch 2.9): each rank has whole matrices, and orthogonalises all
//    of them, in 16 bits; addmm copies its addend first.
//  * kMegatron (megatron/core/optimizer/muon.py, and emerging_optimizers' newton_schulz): the same
//    on FP32 values, which products read as 16 bits (--muon-fp32-matmul-prec medium); of tensor
//    parallelism each rank takes its own part for a matrix (--muon-tp-mode blockwise). Query, key
//    and value weights are apart (--muon-split-qkv); so are, here, the two parts of linear_fc1,
//    which it has as one matrix.
//  * kDion (dion/muon.py of microsoft/dion@0c205499): as many matrices of one shape as there are
//    ranks; an all-to-all brings each rank one of them as a whole, another brings the rows back,
//    three batches under way at once. Batches that are not full are filled up. Experts, of which
//    each rank has whole ones, are not exchanged. Kernels around the products are compiled.
UpdatedTensors WriteMuonUpdate(TrainingStep& step, const plan::Training& training,
                               const UpdatedTensors& updated,
                               std::span<const program::BufferUse> uses);

}  // namespace stepcast::lowering
