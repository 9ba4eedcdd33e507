#pragma once

#include <memory>

#include "src/runtime/backend.h"

namespace stepcast::runtime::cuda {

// The backend for this machine's GPUs: CUDA, cuBLASLt and NCCL. Fails, with the reason, if no GPU
// responds. A rank uses the GPU whose number is the rank's local number. If each process sees only
// one GPU, the rank uses that GPU.
Attempt<std::unique_ptr<Backend>> MakeCudaBackend();

}  // namespace stepcast::runtime::cuda
