#pragma once

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/base/version.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"

namespace stepcast::cost {

// Measured times of kernels and copies, interpolated between the measured points. (Attention,
// described below, is interpolated over three sizes of its own.)
//
// Curves:
//   At a point, the result is the measured time.
//   Between two points, the time is linear in the size. This is exact for a start-up cost and a
//     rate. The result counts as interpolated.
//   Below the first point, the result is the first time, because start-up costs dominate. It counts
//     as extrapolated.
//   Beyond the last point, the rate between the last point and the largest point that is four times
//     smaller applies. Without such a point, t = t_last x / x_last. The result counts as
//     extrapolated.
//
// Surfaces of matrix products:
//   On the grid, the result is the measured time.
//   Inside the grid, the logarithm of the throughput 2 m n k / t is trilinear in the logarithms of
//     m, n and k. The result counts as interpolated.
//   Outside the grid, each axis is extrapolated separately: below its first value with the time
//     there, beyond its last value with the throughput there.
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

// Converts a measured time to a demand. The start of the measured time is latency, and only the
// rest is work. If `latency_counts` is false, the latency is omitted, as in textbook programs.
Demand DemandOf(const MeasuredTime& measured, Time start_latency, bool latency_counts);

// Measured times of fused attention cores, interpolated over three sizes: the number of heads over
// all sequences, the sequence length, and the head size.
//
// Inside, the logarithm of the time (and so of the throughput) is linear in the logarithm of each
// size: between the lengths of a curve, then between curves of heads of the same size, then between
// head sizes. Outside (extrapolated):
//  sequence   below the first, the time at it; beyond the last, its throughput
//  head size  likewise
//  heads      by the thread blocks they fill. A block computes kQueryRows rows of one head, so a
//             core has b = heads x sequence / kQueryRows blocks, which take time in proportion to
//             max(b, multiprocessors): as many as there are multiprocessors run at once, and fewer
//             are not faster.
// With a window, a core takes the fraction of the full time that it computes of the scores.
// Measured cores are causal: without a mask a core takes twice as long. If keys and queries differ
// in number, it takes as long as a square with the same number of pairs.

// The query rows per block in the forward kernel of FlashAttention-2 with heads of 64 and 128 (Dao
// 2023, arXiv 2307.08691).
inline constexpr std::int64_t kQueryRows = 128;

// Returns the time of a kAttention or kAttentionGradient kernel. `surface` must be the non-empty
// surface of its direction and data type. If `multiprocessors` is zero, their number is unknown,
// and the time is proportional to the heads.
MeasuredTime TimeOfAttention(const calibration::AttentionSurface& surface, const Kernel& kernel,
                             int multiprocessors);

// Matrix products whose rows are not a multiple of 16 bytes, such as a head over 50,257 words.
//
// Tensor cores load 16 bytes at a time, or 8 numbers of 16 bits. If the rows of an operand or of
// the result are not a multiple of 16 bytes, a library must use other kernels. These load and store
// 4 or 2 bytes at once. They lack the asynchronous copies that keep the multiprocessor busy
// (NVIDIA, "Matrix Multiplication Background User's Guide", section 2.2). A kernel is built for one
// alignment of all three matrices (CUTLASS names them by it), so a result's rows can matter too. On
// an H100, cuBLAS 13.1 runs a forward over 50,257 words, whose operands are aligned, by
// cutlass_75_tensorop ... align1, seven times as long as over 50,264. Earlier releases on A100 did
// not (calibration/published/vtrain-single.yaml: only the head's two gradients lose). The layout
// (ProductLayout) determines which dimensions form the rows. Products in FP32 without tensor cores
// lose nothing (on that H100, 1 % or less).

// The rate of a product relative to aligned ones. For a single product it is the least of:
//  * operands: `gemm_unaligned` if only 2 bytes divide the rows, `gemm_unaligned_even` if 4 or 8 do
//    (alike on an H100). If the latter is zero, the rate falls by an equal factor for each halving
//    of the load size (assumed: the guide shows rates rising at each step, but has no table);
//  * result: `gemm_unaligned_result` if only 2 bytes divide its rows, `gemm_unaligned_even` if 4 or
//    8 do.
//
// Libraries have fewer kernels for batches of products, but more with each release. A batch uses
// `batched_unaligned` of its type and of the cuBLAS of PyTorch `torch`, whatever smaller size
// divides the rows of its operands. If that is zero, a batch counts as single products. Other
// figures that are zero are unknown and cause no loss.
double UnalignedRate(const Kernel& product, const calibration::KernelCosts& costs, Version torch);

// The same product with rows padded to 16 bytes. torch.compile runs the padded product if it is
// faster (torch/_inductor/fx_passes/pad_mm.py). Padded operands are written first; `copied` counts
// these bytes, including the bytes read for them. Readers of the result skip the padding.
struct PaddedProduct {
  Kernel product;
  Bytes copied;
};
PaddedProduct Padded(const Kernel& product);

// The clock at which a board's power limit lets products and attention run in sustained training.
//
// Dynamic power is proportional to frequency times voltage squared, and voltage to frequency. A
// device that would draw `idle + products` at full clock and may draw `limit` therefore runs at the
// cube root of (limit - idle) / products.
//
// The limit L applies to the mean over kernels that alternate within milliseconds. If memory-bound
// kernels draw W < L, the others may draw
//
//   L + (L - W) M / (A / c)
//
// A is the time of products and attention at full clock, and A / c their time at the clock c, which
// they then sustain. M is the time of everything else, which does not depend on the clock.
// calibration/h100-sxm.yaml has the measurement. Power while a device waits for others is not
// counted.

// Returns the sustained fraction of the full clock, at most 1. It is 1 if the profile or the data
// sheet has no figures (limit_watts = 0).
double SustainedClock(const calibration::PowerDraw& power, double limit_watts);

// The power draw of the kernels of a micro-batch. Times are in seconds at full clock; only their
// ratios matter.
struct MicroBatchDraw {
  double arithmetic = 0;  // A
  // The time that the micro-batch's flops take at the rate of the best products. It is weighted by
  // the power of the flops' type, which is the type's watts divided by PowerDraw::products.
  double at_best = 0;
  double other = 0;  // M
};

// Returns the watts that products and attention may draw while they run. If the profile has no
// figure for memory-bound kernels, returns the limit itself.
double ArithmeticLimit(const calibration::PowerDraw& power, double limit_watts,
                       const MicroBatchDraw& draw);

}  // namespace stepcast::cost
