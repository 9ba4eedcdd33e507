#pragma once

#include "src/lowering/training_step.h"

// What every real framework has in memory beside its strategy.
namespace stepcast::lowering {

// The matrix libraries' workspaces, for the life of the process:
//
// * PyTorch has one for each cuBLAS handle and stream (aten/src/ATen/cuda/CublasHandlePool.cpp).
//   Handles are those of threads, and autograd's backward has a thread of its own, so two;
//   deterministic ones (CUBLAS_WORKSPACE_CONFIG=:4096:8) have eight buffers of 4 MiB each.
// * Transformer Engine's layers have one of their own: 32 MiB from Hopper on, else 4 MiB
//   (transformer_engine/pytorch/module/base.py, get_cublas_workspace_size_bytes).
//
// Peaks that Megatron-LM's functional tests print agree to 1.1 MB with these (golden values of
// gpt3_mcore_te_tp1_pp1_resume_torch_dist_dist_optimizer, A100 and H100, deterministic).
// Nothing without a GPU or without matrix products (layer lists).
void AllocateFrameworkWorkspaces(TrainingStep& step);

}  // namespace stepcast::lowering
