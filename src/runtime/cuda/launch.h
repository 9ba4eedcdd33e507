#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace stepcast::runtime::cuda {

struct LaunchShape {
  dim3 blocks;
  unsigned threads = 1;
  std::size_t shared = 0;  // dynamic shared memory, bytes
  cudaStream_t stream = nullptr;
};

// Launches a kernel, like kernel<<<shape>>>(arguments...), in syntax that every C++ compiler
// accepts. Returns CUDA's status.
template <typename... Parameters, typename... Arguments>
cudaError_t Launch(void (*kernel)(Parameters...), const LaunchShape& shape,
                   Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared;
  config.stream = shape.stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace stepcast::runtime::cuda
