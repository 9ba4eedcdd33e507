#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "src/base/bytes.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/device.h"

// Matrix products by cuBLASLt. What runs a product of a shape is looked for once, by cuBLASLt's
// heuristics, when the device is made. FP32 is multiplied as FP32, not as TF32.
namespace stepcast::runtime::cuda {

class Products {
 public:
  // The workspace that a stream which multiplies has: what NVIDIA advises for Hopper.
  static constexpr Bytes kWorkspace = MiB(32);

  // For the current device. A shape that cuBLASLt cannot multiply there (fp8 before Ada and
  // Hopper, or with sizes that are not multiples of 16) is a Failure that names it.
  static Attempt<std::unique_ptr<Products>> Make(const std::vector<Product>& products);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  // result = scale first second, or += where the product says so. `workspace` has kWorkspace bytes
  // and belongs to the stream.
  Attempt<void> Run(program::Index product, float scale, const void* first, const void* second,
                    void* result, void* workspace, cudaStream_t stream) const;

 private:
  struct Plan {
    Product product;
    cublasLtMatmulDesc_t operation = nullptr;
    // By cuBLASLt's names, which are for columns one behind the other: A is our second operand.
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  Products() = default;
  Attempt<void> Prepare(const Product& product);

  cublasLtHandle_t handle_ = nullptr;
  std::vector<Plan> plans_;
};

}  // namespace stepcast::runtime::cuda
