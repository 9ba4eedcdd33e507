#pragma once

#include <memory>

#include "src/runtime/backend.h"

namespace stepcast::runtime::cuda {

// Creates the backend for this machine's GPUs: CUDA, cuBLASLt and NCCL. If no GPU responds, returns
// the reason as a failure. A rank uses the GPU whose number is the rank's local number. If each
// process sees only one GPU, the rank uses that GPU.
Attempt<std::unique_ptr<Backend>> MakeCudaBackend();

}  // namespace stepcast::runtime::cuda
