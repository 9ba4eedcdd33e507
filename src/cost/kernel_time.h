#pragma once

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/base/version.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"

namespace stepcast::cost {

// Measured times of kernels and copies, interpolated between the measured points. For attention,
// see below.
//
// Curves:
//   At a point, the result is the measured time.
//   Between two points, the time is linear in the size. This model is exact for a start-up cost
//     and a constant rate. The provenance is kInterpolated.
//   Below the first point, the result is the first time, because start-up costs dominate. The
//     provenance is kExtrapolated.
//   Beyond the last point, the slope is constant: the slope between the last point and the largest
//     point that is at least four times smaller. Without such a point, t = t_last x / x_last. The
//     provenance is kExtrapolated.
//
// Surfaces of matrix multiplications:
//   On the grid, the result is the measured time.
//   Inside the grid, the logarithm of the throughput 2 m n k / t is trilinear in the logarithms of
//     m, n and k. The provenance is kInterpolated.
//   Outside the grid, each axis is extrapolated separately: with constant time below its first
//     value, and with constant throughput beyond its last value.
//
// Times are rounded up to a picosecond. Requires non-empty curves and surfaces that satisfy
// calibration::Check, and sizes that are not negative.

struct MeasuredTime {
  Time time;
  Provenance provenance = Provenance::kMeasured;
};

MeasuredTime TimeFromCurve(const calibration::Curve& curve, Bytes bytes);
MeasuredTime TimeFromSurface(const calibration::GemmSurface& surface, std::int64_t m,
                             std::int64_t n, std::int64_t k);

// Converts a measured time to a demand with latency `start_latency`; the remaining time is work. If
// `latency_counts` is false, the latency is omitted, as in the `reference` framework.
Demand DemandOf(const MeasuredTime& measured, Time start_latency, bool latency_counts);

// Measured times of fused attention kernels, interpolated over three sizes: the number of heads
// over all sequences, the sequence length, and the head size.
//
// Inside the measured range, the logarithm of the time is linear in the logarithm of each size. The
// time is interpolated first over length, then over heads, then over head size. Outside the range,
// the time is extrapolated:
//  sequence   constant time below the first length, constant throughput beyond the last length
//  head size  as for the sequence
//  heads      by thread blocks. A block computes kQueryRows rows of one head, so a kernel has
//             b = heads x sequence / kQueryRows blocks. The time is proportional to
//             max(b, multiprocessors), because each multiprocessor runs one block at a time.
// With a sliding window, the time is multiplied by the fraction of scores that are computed.
// Measured kernels are causal; without a mask, a kernel takes twice as long. If the numbers of keys
// and queries differ, the time is computed for equal numbers of keys and queries that form as many
// pairs.

// The query rows per block in the forward kernel of FlashAttention-2 with head sizes 64 and 128
// (Dao 2023, arXiv 2307.08691).
inline constexpr std::int64_t kQueryRows = 128;

// Returns the time of a kAttention or kAttentionGradient kernel. `surface` must be the non-empty
// surface of the kernel's direction and data type. If the number of `multiprocessors` is unknown
// (zero), the time is proportional to the number of heads.
MeasuredTime TimeOfAttention(const calibration::AttentionSurface& surface, const Kernel& kernel,
                             int multiprocessors);

// Matrix multiplications with rows that are not a multiple of 16 bytes, such as an output layer
// over a vocabulary of 50,257.
//
// Tensor cores load 16 bytes at a time (8 numbers of 16 bits). For other rows of an operand or
// result, a library must use kernels that load and store 4 or 2 bytes at a time. These kernels have
// no asynchronous copies (NVIDIA, "Matrix Multiplication Background User's Guide", section 2.2). A
// kernel is compiled for one alignment of all three matrices, so the rows of the result can also
// matter.
//
// On an H100, cuBLAS 13.1 runs the forward pass for 50,257 words, whose operands are aligned, with
// cutlass_75_tensorop ... align1. This pass takes seven times as long as for 50,264 words. Earlier
// releases on A100 are slow only for the two gradients of the output layer
// (calibration/published/vtrain-single.yaml). The layout (ProductLayout) determines which
// dimensions form the rows. FP32 multiplications without tensor cores are not slower (1 % or less
// on the same H100).

// Returns the rate of a matrix multiplication divided by the rate with aligned rows. For a single
// multiplication, the result is the minimum of:
//   * operands: `gemm_unaligned` if their rows are aligned only to 2 bytes, `gemm_unaligned_even`
//     if aligned to 4 or 8 bytes (equal on an H100). If `gemm_unaligned_even` is zero, the rate
//     falls by an equal factor for each halving of the load size. (This is an assumption: the guide
//     shows rates that rise at each step, but has no table.)
//   * result: `gemm_unaligned_result` if its rows are aligned only to 2 bytes,
//     `gemm_unaligned_even` if aligned to 4 or 8 bytes.
//
// Libraries have fewer kernels for batched multiplications, but add kernels with each release. For
// a batch with unaligned rows, the rate is `batched_unaligned` for the data type and the cuBLAS of
// PyTorch `torch`, for any alignment. If `batched_unaligned` is zero, a batch is treated like
// single multiplications. Any other value of zero means unknown, and causes no loss.
double UnalignedRate(const Kernel& product, const calibration::KernelCosts& costs, Version torch);

// A matrix multiplication whose rows are padded to 16 bytes. torch.compile uses it if it is faster
// (torch/_inductor/fx_passes/pad_mm.py). Padded operands are written first: `copied` bytes are read
// and written. Readers of the result ignore the padding.
struct PaddedProduct {
  Kernel product;
  Bytes copied;
};
PaddedProduct Padded(const Kernel& product);

// The clock that a board's power limit allows for sustained matrix multiplications and attention.
//
// Dynamic power is proportional to frequency times voltage squared, and voltage is proportional to
// frequency. If a device would draw `idle + products` at full clock and may draw `limit`, its clock
// is therefore the cube root of (limit - idle) / products, relative to the full clock.
//
// The limit L applies to the mean power of kernels that alternate within milliseconds. If
// memory-bound kernels draw W < L, the other kernels may draw
//
//   L + (L - W) x M / (A / c)
//
// A is the time of multiplications and attention at full clock. A / c is the time of
// multiplications and attention at the sustained clock c. M is the time of all other kernels, which
// does not depend on the clock. calibration/h100-sxm.yaml has the measurement. Power while a device
// waits for other devices is ignored.

// Returns the sustained clock as a fraction of the full clock. The result is 1 if the profile has
// no power draw or the data sheet has no limit (limit_watts = 0).
double SustainedClock(const calibration::PowerDraw& power, double limit_watts);

// The power draw of the kernels of a micro-batch. Times are in seconds at full clock. Results
// depend only on the ratios of the times.
struct MicroBatchDraw {
  double arithmetic = 0;  // time of multiplications and attention (A)
  // The micro-batch's FLOPs divided by the rate of the best multiplications. FLOPs are weighted by
  // the power draw of their data type, relative to PowerDraw::products.
  double at_best = 0;
  double other = 0;  // time of all other kernels (M)
};

// Returns the power, in watts, that multiplications and attention may draw. If the profile has no
// power draw of memory-bound kernels, returns `limit_watts`.
double ArithmeticLimit(const calibration::PowerDraw& power, double limit_watts,
                       const MicroBatchDraw& draw);

}  // namespace stepcast::cost
