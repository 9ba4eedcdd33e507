#pragma once

#include <memory>

#include "src/runtime/backend.h"

namespace stepcast::runtime::cuda {

// Creates the backend for this machine's GPUs: CUDA, cuBLASLt and NCCL. If no GPU responds, returns
// the reason as a failure. A rank uses the GPU whose ordinal is its local rank. If each process has
// only one GPU, the rank uses this GPU.
Attempt<std::unique_ptr<Backend>> MakeCudaBackend();

}  // namespace stepcast::runtime::cuda
