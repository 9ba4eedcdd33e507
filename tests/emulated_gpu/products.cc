#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/emulated_gpu/schedule.h"

using emulated::Nanoseconds;
using emulated::Schedule;

struct cublasLtContext {
  int gpu = 0;
};
struct cublasLtMatmulDescOpaque_t {
  bool turn_a = false, turn_b = false;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type{};
  std::int64_t rows = 0, columns = 0, ahead = 0;  // from column to column
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // from matrix to matrix
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t alignment = 256;
};

namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

#define EMULATED_CALL(failure)                          \
  const std::scoped_lock lock(Schedule::Get().mutex()); \
  if (emulated::CallFails(__func__)) return failure

std::int64_t SizeOf(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}

float OfFp8(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const float fraction = static_cast<float>(bits & 7) / 8;
  const float size =
      exponent == 0 ? std::ldexp(fraction, -6) : std::ldexp(1 + fraction, exponent - 7);
  return (bits & 0x80) != 0 ? -size : size;
}

float Load(cudaDataType_t type, const std::byte* at) {
  using stepcast::runtime::values::ToFp32;
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case CUDA_R_16BF:
      return ToFp32(as(__nv_bfloat16()));
    case CUDA_R_16F:
      return ToFp32(as(__half()));
    case CUDA_R_8F_E4M3:
      return OfFp8(as(std::uint8_t()));
    case CUDA_R_32F:
      break;
  }
  return as(0.0f);
}

void Store(cudaDataType_t type, float value, std::byte* at) {
  using stepcast::runtime::values::FromFp32;
  const auto as = [&](auto stored) { std::memcpy(at, &stored, sizeof stored); };
  switch (type) {
    case CUDA_R_16BF:
      return as(FromFp32<__nv_bfloat16>(value));
    case CUDA_R_16F:
      return as(FromFp32<__half>(value));
    default:
      return as(value);
  }
}

// Matrix number `which` as rows or columns after transposition: [columns][rows], or the reverse.
std::vector<float> Read(const Layout& layout, bool by_row, const std::byte* at, int which) {
  std::vector<float> numbers(static_cast<std::size_t>(layout.rows * layout.columns));
  at += which * layout.stride * SizeOf(layout.type);
  for (std::int64_t c = 0; c < layout.columns; ++c) {
    for (std::int64_t r = 0; r < layout.rows; ++r) {
      numbers[static_cast<std::size_t>(by_row ? r * layout.columns + c : c * layout.rows + r)] =
          Load(layout.type, at + (c * layout.ahead + r) * SizeOf(layout.type));
    }
  }
  return numbers;
}

// Adds four rows of numbers, each times its factor, so that the sums are read and written once.
void AddFour(const float* factors, const float* numbers, std::vector<float>& sums) {
  const std::size_t size = sums.size();
  const float f0 = factors[0], f1 = factors[1], f2 = factors[2], f3 = factors[3];
  const float* const n1 = numbers + size;
  const float* const n2 = n1 + size;
  const float* const n3 = n2 + size;
  float* const into = sums.data();
  for (std::size_t row = 0; row < size; ++row) {
    into[row] = (((into[row] + f0 * numbers[row]) + f1 * n1[row]) + f2 * n2[row]) + f3 * n3[row];
  }
}

void Multiply(const cublasLtMatmulDescOpaque_t& operation, float alpha, const std::byte* a,
              const Layout& a_layout, const std::byte* b, const Layout& b_layout, float beta,
              std::byte* d, const Layout& d_layout) {
  const std::int64_t k = operation.turn_a ? a_layout.rows : a_layout.columns;
  for (int which = 0; which < d_layout.batch; ++which) {
    // By k: [k][rows of d], and by column of d: [columns][k].
    const std::vector<float> first = Read(a_layout, operation.turn_a, a, which);
    const std::vector<float> second = Read(b_layout, operation.turn_b, b, which);
    std::vector<float> sums(static_cast<std::size_t>(d_layout.rows));
    for (std::int64_t column = 0; column < d_layout.columns; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      const float* const factors = second.data() + column * k;
      std::int64_t i = 0;
      for (; i + 4 <= k; i += 4) AddFour(factors + i, first.data() + i * d_layout.rows, sums);
      for (; i < k; ++i) {
        const float* numbers = first.data() + i * d_layout.rows;
        for (std::int64_t row = 0; row < d_layout.rows; ++row) {
          sums[static_cast<std::size_t>(row)] += factors[i] * numbers[row];
        }
      }
      for (std::int64_t row = 0; row < d_layout.rows; ++row) {
        std::byte* at =
            d + (which * d_layout.stride + column * d_layout.ahead + row) * SizeOf(d_layout.type);
        float value = alpha * sums[static_cast<std::size_t>(row)];
        if (beta != 0) value += beta * Load(d_layout.type, at);
        Store(d_layout.type, value, at);
      }
    }
  }
}

}  // namespace

std::size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  EMULATED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
  *handle = new cublasLtContext{emulated::CurrentGpu()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t,
                                        cudaDataType_t) {
  EMULATED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
  *operation = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t) {
  EMULATED_CALL(CUBLAS_STATUS_INVALID_VALUE);
  if (attribute == CUBLASLT_MATMUL_DESC_FAST_ACCUM) return CUBLAS_STATUS_SUCCESS;
  const bool turned = *static_cast<const cublasOperation_t*>(value) == CUBLAS_OP_T;
  (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? operation->turn_a : operation->turn_b) = turned;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  EMULATED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
  *layout = new Layout{.type = type,
                       .rows = static_cast<std::int64_t>(rows),
                       .columns = static_cast<std::int64_t>(columns),
                       .ahead = stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t) {
  EMULATED_CALL(CUBLAS_STATUS_INVALID_VALUE);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    layout->batch = *static_cast<const std::int32_t*>(value);
  } else {
    layout->stride = *static_cast<const std::int64_t*>(value);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  EMULATED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t) {
  EMULATED_CALL(CUBLAS_STATUS_INVALID_VALUE);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    preference->workspace = *static_cast<const std::uint64_t*>(value);
  } else {
    preference->alignment = *static_cast<const std::uint32_t*>(value);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  EMULATED_CALL(CUBLAS_STATUS_EXECUTION_FAILED);
  *found = 0;
  if (a->type == CUDA_R_8F_E4M3) {
    // cuBLASLt's documentation of 8-bit matrices: A transposed, B not, sizes in multiples of 16
    // bytes.
    const bool sizes_fit = a->rows % 16 == 0 && a->columns % 16 == 0 && b->columns % 16 == 0;
    if (!operation->turn_a || operation->turn_b || !sizes_fit) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const std::int64_t k = operation->turn_a ? a->rows : a->columns;
  if (k != (operation->turn_b ? b->columns : b->rows) || a->type != b->type ||
      d->rows != (operation->turn_a ? a->columns : a->rows) ||
      d->columns != (operation->turn_b ? b->rows : b->columns)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = 1;
  results[0] = {};
  results[0].algo.data[0] = preference->alignment;
  results[0].algo.data[1] = preference->workspace;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_size, cudaStream_t stream) {
  EMULATED_CALL(CUBLAS_STATUS_EXECUTION_FAILED);
  if (handle->gpu != emulated::CurrentGpu()) emulated::Die("a product on another GPU's handle");
  if (c != d) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (reinterpret_cast<std::uintptr_t>(d) % algo->data[0] != 0 || workspace_size < algo->data[1] ||
      workspace == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  emulated::Load(handle->gpu, "product of " + std::to_string(d_layout->rows) + " x " +
                                  std::to_string(d_layout->columns) + ", types " +
                                  std::to_string(a_layout->type) + ", " +
                                  std::to_string(d_layout->type));
  emulated::Enqueue(
      stream,
      {.work = [=, operation = *operation, alpha = *static_cast<const float*>(alpha),
                beta = *static_cast<const float*>(beta), a_layout = *a_layout, b_layout = *b_layout,
                d_layout = *d_layout](emulated::Operation&, Nanoseconds begin) {
        Multiply(operation, alpha, static_cast<const std::byte*>(a), a_layout,
                 static_cast<const std::byte*>(b), b_layout, beta, static_cast<std::byte*>(d),
                 d_layout);
        // 400 TFLOP/s.
        const double products =
            static_cast<double>(d_layout.batch) * static_cast<double>(d_layout.rows) *
            static_cast<double>(d_layout.columns) *
            static_cast<double>(operation.turn_a ? a_layout.rows : a_layout.columns);
        return std::optional(begin + 3000 + static_cast<Nanoseconds>(2 * products / 4e5));
      }});
  return CUBLAS_STATUS_SUCCESS;
}
