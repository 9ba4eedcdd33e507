#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "src/base/bytes.h"
#include "src/runtime/cuda/launch_plan.h"
#include "src/runtime/device.h"

// Runs GEMMs with cuBLASLt. When the device is created, cuBLASLt's heuristics choose the algorithm
// for each shape. FP32 GEMMs use FP32 arithmetic, not TF32.
namespace stepcast::runtime::cuda {

class Products {
 public:
  // The workspace size for each stream that runs GEMMs: NVIDIA's recommendation for Hopper.
  static constexpr Bytes kWorkspace = MiB(32);

  // Prepares GEMMs on the current device. If cuBLASLt does not support a shape on this device,
  // returns a failure with the shape. Examples are fp8 before Ada and Hopper, and fp8 with sizes
  // that are not multiples of 16.
  static Attempt<std::unique_ptr<Products>> Make(const std::vector<Product>& products);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  // Computes result = scale * first * second or, if Product::add is set, result += scale * first *
  // second. `workspace` has kWorkspace bytes that no other stream uses.
  Attempt<void> Run(program::Index product, float scale, const void* first, const void* second,
                    void* result, void* workspace, cudaStream_t stream) const;

 private:
  struct Plan {
    Product product;
    cublasLtMatmulDesc_t operation = nullptr;
    // The operands of one cuBLASLt GEMM. cuBLASLt's matrices are column-major, so its operand A is
    // the second operand of Run.
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  Products() = default;
  Attempt<void> Prepare(const Product& product);

  cublasLtHandle_t handle_ = nullptr;
  std::vector<Plan> plans_;
};

}  // namespace stepcast::runtime::cuda
