#pragma once

#include <memory>

#include "src/runtime/backend.h"

namespace stepcast::runtime::cuda {

// The backend over this machine's GPUs: CUDA, cuBLASLt, NCCL. A machine without a GPU that answers
// is a Failure that says why. Rank and GPU go together by the rank's number on its node; where each
// process sees one GPU of its own, it is that one.
Attempt<std::unique_ptr<Backend>> MakeCudaBackend();

}  // namespace stepcast::runtime::cuda
