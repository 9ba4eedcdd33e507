#include "src/cost/unaligned_products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "src/base/data_type.h"

namespace stepcast::cost {
namespace {

constexpr std::int64_t kWidest = 16;  // bytes
constexpr std::int64_t kNarrowest = 2;

// A matrix: which dimension its rows have, and which counts them.
struct Matrix {
  std::int64_t Kernel::*row;
  std::int64_t Kernel::*rows;
};

std::array<Matrix, 2> OperandsOf(ProductLayout layout) {
  switch (layout) {
    case ProductLayout::kForward:
      return {{{&Kernel::k, &Kernel::m}, {&Kernel::k, &Kernel::n}}};
    case ProductLayout::kInputGradient:
      return {{{&Kernel::k, &Kernel::m}, {&Kernel::n, &Kernel::k}}};
    case ProductLayout::kWeightGradient:
      return {{{&Kernel::m, &Kernel::k}, {&Kernel::n, &Kernel::k}}};
  }
  return {};
}

// The largest load, in bytes, that divides a row.
std::int64_t LoadOf(std::int64_t row, std::int64_t element) {
  std::int64_t load = kWidest;
  while (load > kNarrowest && row * element % load != 0) load /= 2;
  return load;
}

// Zero: not known.
double BatchedRate(DataType type, const calibration::KernelCosts& costs, Version torch) {
  for (const calibration::UnalignedBatches& batches : costs.batched_unaligned) {
    if (torch >= batches.torch) return batches.rate[static_cast<std::size_t>(type)];
  }
  return 0;
}

// Of operands whose rows so many bytes divide.
double OperandRate(std::int64_t load, const calibration::KernelCosts& costs) {
  if (load == kWidest || costs.gemm_unaligned == 0) return 1;
  if (load > kNarrowest && costs.gemm_unaligned_even != 0) return costs.gemm_unaligned_even;
  return std::pow(costs.gemm_unaligned,
                  std::log2(static_cast<double>(kWidest) / static_cast<double>(load)) /
                      std::log2(static_cast<double>(kWidest) / kNarrowest));
}

// Of a result whose rows so many bytes divide.
double ResultRate(std::int64_t load, const calibration::KernelCosts& costs) {
  if (load == kWidest || costs.gemm_unaligned_result == 0) return 1;
  if (load == kNarrowest) return costs.gemm_unaligned_result;
  return costs.gemm_unaligned_even == 0 ? 1 : costs.gemm_unaligned_even;
}

}  // namespace

double UnalignedRate(const Kernel& product, const calibration::KernelCosts& costs, Version torch) {
  if (product.data_type == DataType::kFp32) return 1;
  const std::int64_t element = SizeOf(product.data_type);
  std::int64_t load = kWidest;
  for (const Matrix& operand : OperandsOf(product.layout)) {
    load = std::min(load, LoadOf(product.*operand.row, element));
  }
  if (load < kWidest && product.batch > 1) {
    const double batched = BatchedRate(product.data_type, costs, torch);
    if (batched != 0) return batched;
  }
  const std::int64_t sum = product.adds_to_fp32 ? SizeOf(DataType::kFp32) : element;
  return std::min(OperandRate(load, costs), ResultRate(LoadOf(product.n, sum), costs));
}

PaddedProduct Padded(const Kernel& product) {
  const std::int64_t element = SizeOf(product.data_type);
  const std::int64_t multiple = kWidest / element;
  PaddedProduct padded{.product = product, .copied = {}};
  const auto fill = [&](std::int64_t& row) { row = (row + multiple - 1) / multiple * multiple; };
  const auto operands = OperandsOf(product.layout);
  for (const Matrix& operand : operands) fill(padded.product.*operand.row);
  fill(padded.product.n);
  for (const Matrix& operand : operands) {
    const std::int64_t before = product.*operand.row * product.*operand.rows;
    const std::int64_t after = padded.product.*operand.row * padded.product.*operand.rows;
    if (after != before) padded.copied += Bytes(product.batch * element * (before + after));
  }
  padded.product.flops = 2 * product.batch * padded.product.m * padded.product.n * padded.product.k;
  return padded;
}

}  // namespace stepcast::cost
