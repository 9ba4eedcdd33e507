#include "src/runtime/cuda/failure.h"

#include "fmt/format.h"

namespace stepcast::runtime::cuda {

Attempt<void> Check(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  return tl::make_unexpected(
      Failure{fmt::format("CUDA failed while {}: {} ({})", doing, cudaGetErrorString(error),
                          cudaGetErrorName(error)),
              error == cudaErrorMemoryAllocation});
}

cudaError_t Answered(cudaError_t state) {
  if (state == cudaErrorNotReady) cudaGetLastError();
  return state;
}

Attempt<void> Check(ncclResult_t result, std::string_view doing) {
  if (result == ncclSuccess) return {};
  return tl::make_unexpected(
      Failure{fmt::format("NCCL failed while {}: {}", doing, ncclGetErrorString(result))});
}

Attempt<void> Check(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return tl::make_unexpected(
      Failure{fmt::format("cuBLASLt failed while {}: {}", doing, cublasLtGetStatusString(status)),
              status == CUBLAS_STATUS_ALLOC_FAILED});
}

}  // namespace stepcast::runtime::cuda
