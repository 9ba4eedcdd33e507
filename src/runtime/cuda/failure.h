#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <string_view>

#include "src/runtime/device.h"
#include "tl/expected.hpp"

// Converts error codes of CUDA, NCCL and cuBLASLt to failures. `doing` continues the text "while
// ...".
namespace stepcast::runtime::cuda {

// Converts an error code to a failure. The function for CUDA also clears the error, because the
// next call of CUDA would otherwise return the error again.
Attempt<void> Check(cudaError_t error, std::string_view doing);
Attempt<void> Check(ncclResult_t result, std::string_view doing);
Attempt<void> Check(cublasStatus_t status, std::string_view doing);

// Returns `state`, the result of cudaEventQuery or cudaStreamQuery. If `state` is "not ready",
// clears CUDA's last error, because the check of the next kernel launch would report this error.
cudaError_t Answered(cudaError_t state);

}  // namespace stepcast::runtime::cuda
