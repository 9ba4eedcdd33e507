#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <string_view>
#include <utility>

#include "src/runtime/device.h"
#include "tl/expected.hpp"

// Error codes of CUDA, NCCL and cuBLASLt as failures. `doing` completes "while ...".
namespace stepcast::runtime::cuda {

// Also clears the error, which CUDA would otherwise return to the next caller.
Attempt<void> Check(cudaError_t error, std::string_view doing);
Attempt<void> Check(ncclResult_t result, std::string_view doing);
Attempt<void> Check(cublasStatus_t status, std::string_view doing);

// The result of cudaEventQuery or cudaStreamQuery. CUDA keeps "not ready" as the last error, where
// the check of the next kernel's launch would find it: this clears it.
cudaError_t Answered(cudaError_t state);

}  // namespace stepcast::runtime::cuda

// Returns the failure of an Attempt from the function it stands in.
#define STEPCAST_TRY(expression)                                \
  do {                                                          \
    if (auto attempt = (expression); !attempt) {                \
      return ::tl::make_unexpected(std::move(attempt).error()); \
    }                                                           \
  } while (false)
