#include "src/runtime/cuda/products.h"

#include <cstddef>
#include <cstdint>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/runtime/cuda/failure.h"

namespace stepcast::runtime::cuda {
namespace {

cudaDataType_t CudaType(DataType type) {
  switch (type) {
    case DataType::kFp32:
    case DataType::kTf32:
      return CUDA_R_32F;
    case DataType::kBf16:
      return CUDA_R_16BF;
    case DataType::kFp16:
      return CUDA_R_16F;
    case DataType::kFp8:
      return CUDA_R_8F_E4M3;
    case DataType::kMxfp8:  // products of these are refused
    case DataType::kNvfp4:
      break;
  }
  return CUDA_R_32F;
}

std::string Describe(const Product& p) {
  return fmt::format("{}{} product of [{}, {}] and [{}, {}]",
                     p.batch > 1 ? fmt::format("{} times a ", p.batch) : "a ", Name(p.input), p.m,
                     p.k, p.k, p.n);
}

template <typename T>
Attempt<void> Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                  const T& value) {
  return Check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
               "describing a matrix multiplication");
}

// A column-major matrix, `batch` times; stride 0 means that the batch shares it.
Attempt<void> MakeLayout(cublasLtMatrixLayout_t& layout, DataType type, std::int64_t rows,
                         std::int64_t columns, std::int64_t batch, bool shared) {
  const char* doing = "describing a matrix";
  STEPCAST_TRY(
      Check(cublasLtMatrixLayoutCreate(&layout, CudaType(type), static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), rows),
            doing));
  if (batch == 1) return {};
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t stride = shared ? 0 : rows * columns;
  STEPCAST_TRY(Check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                      &count, sizeof count),
                     doing));
  return Check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &stride, sizeof stride),
               doing);
}

// Frees at the end of a scope.
struct Preference {
  cublasLtMatmulPreference_t at = nullptr;
  ~Preference() {
    if (at != nullptr) cublasLtMatmulPreferenceDestroy(at);
  }
};

}  // namespace

Attempt<std::unique_ptr<Products>> Products::Make(const std::vector<Product>& products) {
  std::unique_ptr<Products> made(new Products);
  if (products.empty()) return made;
  STEPCAST_TRY(Check(cublasLtCreate(&made->handle_), "starting cuBLASLt"));
  // If Prepare fails halfway, the destructor frees the partial plan.
  made->plans_.reserve(products.size());
  for (const Product& product : products) STEPCAST_TRY(made->Prepare(product));
  return made;
}

Products::~Products() {
  for (const Plan& plan : plans_) {
    for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.d}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (plan.operation != nullptr) cublasLtMatmulDescDestroy(plan.operation);
  }
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

// A row-major matrix is, to cuBLASLt, the transposed matrix. cuBLASLt therefore computes the
// transposed result [n, m] from the transposed operands in the other order:
//                    second operand, its A          first operand, its B
//   kForward         [n, k] is to it [k, n], to     [m, k] is to it [k, m]
//                    be transposed
//   kInputGradient   [k, n] is to it [n, k]         [m, k] is to it [k, m]
//   kWeightGradient  [k, n] is to it [n, k]         [k, m] is to it [m, k], to be transposed
Attempt<void> Products::Prepare(const Product& p) {
  Plan& plan = plans_.emplace_back();
  plan.product = p;
  const char* doing = "describing a matrix multiplication";
  const cublasComputeType_t compute =
      p.input == DataType::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  STEPCAST_TRY(Check(cublasLtMatmulDescCreate(&plan.operation, compute, CUDA_R_32F), doing));
  const bool forward = p.layout == ProductLayout::kForward;
  const bool weight = p.layout == ProductLayout::kWeightGradient;
  const cublasOperation_t turn_a = forward ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t turn_b = weight ? CUBLAS_OP_T : CUBLAS_OP_N;
  STEPCAST_TRY(Set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, turn_a));
  STEPCAST_TRY(Set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, turn_b));
  if (IsQuantized(p.input) && p.input != DataType::kFp8) {
    return tl::make_unexpected(Failure{
        fmt::format("the cuda backend has no matrix multiplications in {}", Name(p.input))});
  }
  if (p.input == DataType::kFp8) {
    // As in frameworks: sums have the tensor core's own precision.
    const std::int8_t fast = 1;
    STEPCAST_TRY(Set(plan.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast));
  }
  STEPCAST_TRY(
      MakeLayout(plan.a, p.input, forward ? p.k : p.n, forward ? p.n : p.k, p.batch, false));
  STEPCAST_TRY(
      MakeLayout(plan.b, p.input, weight ? p.m : p.k, weight ? p.k : p.m, p.batch, p.shared_first));
  STEPCAST_TRY(MakeLayout(plan.d, p.output, p.n, p.m, p.batch, false));

  Preference preference;
  STEPCAST_TRY(Check(cublasLtMatmulPreferenceCreate(&preference.at), doing));
  const auto workspace = static_cast<std::uint64_t>(kWorkspace.count());
  STEPCAST_TRY(Check(
      cublasLtMatmulPreferenceSetAttribute(preference.at, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &workspace, sizeof workspace),
      doing));
  const auto alignment = static_cast<std::uint32_t>(p.output_alignment);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    STEPCAST_TRY(Check(cublasLtMatmulPreferenceSetAttribute(preference.at, attribute, &alignment,
                                                            sizeof alignment),
                       doing));
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.operation, plan.a, plan.b, plan.d, plan.d, preference.at, 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (status == CUBLAS_STATUS_SUCCESS && (count == 0 || found.state != CUBLAS_STATUS_SUCCESS))) {
    return tl::make_unexpected(Failure{fmt::format(
        "on this GPU, cuBLASLt has no algorithm for {} with results in {}{}", Describe(p),
        Name(p.output),
        p.input == DataType::kFp8 ? " (matrix multiplications in fp8 need compute capability 8.9 "
                                    "or later, and sizes that are multiples of 16)"
                                  : "")});
  }
  STEPCAST_TRY(Check(status, fmt::format("selecting an algorithm for {}", Describe(p))));
  plan.algorithm = found.algo;
  return {};
}

Attempt<void> Products::Run(program::Index product, float scale, const void* first,
                            const void* second, void* result, void* workspace,
                            cudaStream_t stream) const {
  const Plan& plan = plans_[product];
  const float keep = plan.product.add ? 1.0f : 0.0f;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, plan.operation, &scale, second, plan.a, first, plan.b, &keep, result, plan.d, result,
      plan.d, &plan.algorithm, workspace, static_cast<std::size_t>(kWorkspace.count()), stream);
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Check(status, fmt::format("computing {}", Describe(plan.product)));
}

}  // namespace stepcast::runtime::cuda
