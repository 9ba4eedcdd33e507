#pragma once

#include <cstdint>

#include "src/base/bytes.h"
#include "src/base/kernel.h"
#include "src/base/time.h"
#include "src/base/version.h"
#include "src/calibration/calibration.h"
#include "src/cost/demand.h"

namespace stepcast::cost {

// Measured times of kernels and copies, read between the measured points. Attention has three sizes
// of its own: kernel_time.h.
//
// Curves
//   at a point            its time                                              measured
//   between two points    linear in time over the size: exact for a start-up    interpolated
//                         cost and a rate
//   below the first       its time: start-up costs rule there                   extrapolated
//   beyond the last       the rate between the last and the largest that is      extrapolated
//                         four times smaller; without one, t = t_last x / x_last
//
// Surfaces of matrix products
//   on the grid           its time                                              measured
//   inside                trilinear: the logarithm of the throughput 2 m n k / t over the
//                         logarithms of m, n and k                              interpolated
//   outside               per axis: below the first value as on it, in the same time; beyond the
//                         last at the throughput on it                          extrapolated
//
// Times that are no whole picosecond round up. Curves and surfaces satisfy calibration::Check and
// are not empty; sizes are not negative.

struct MeasuredTime {
  Time time;
  Provenance provenance = Provenance::kMeasured;
};

MeasuredTime TimeFromCurve(const calibration::Curve& curve, Bytes bytes);
MeasuredTime TimeFromSurface(const calibration::GemmSurface& surface, std::int64_t m,
                             std::int64_t n, std::int64_t k);

// A measured time as a demand: the start-up part is latency, and only the rest is work.
// `latency_counts` false leaves the latency out, as textbook programs do.
Demand DemandOf(const MeasuredTime& measured, Time start_latency, bool latency_counts);

// Times of fused attention cores, read between measured ones by three sizes: the heads of all
// sequences together, the length of the sequences, the size of a head.
//
// Inside, the logarithm of the time, and so that of the throughput, is linear in the logarithm of
// each size: between the lengths of a curve, then between curves of as large heads, then between
// head sizes. Outside (extrapolated):
//   sequence   below the first as on it, in the same time; beyond the last at its throughput
//   head size  likewise
//   heads      by the thread blocks they fill. A block computes kQueryRows rows of one head, so a
//              core has b = heads x sequence / kQueryRows of them, which take as long as
//              max(b, multiprocessors): as many as there are multiprocessors run at once, and fewer
//              are not faster.
// Under a window a core takes as much of the time without one as it computes of the scores.
// Measured ones are causal: without a mask a core takes twice as long, and one of other keys than
// queries as long as a square of as many pairs.

// Of FlashAttention-2's forward with head sizes of 64 and 128 (Dao 2023, arXiv 2307.08691).
inline constexpr std::int64_t kQueryRows = 128;

// Of kAttention or kAttentionGradient, by the surface of its direction and data type, which is not
// empty. `multiprocessors` is zero where the device's are not known: time then goes with the heads.
MeasuredTime TimeOfAttention(const calibration::AttentionSurface& surface, const Kernel& kernel,
                             int multiprocessors);

// Matrix products with rows that 16 bytes do not divide: a head over 50,257 words.
//
// Tensor cores are fed 16 bytes at a time. Where the numbers in a row of an operand or of the
// result are no multiple of that (8 in 16 bits), a library has to take kernels that load and store
// 4 or 2 bytes at once, without the asynchronous copies that keep the multiprocessor busy (NVIDIA,
// "Matrix Multiplication Background User's Guide", section 2.2). A kernel is built for one
// alignment of all three matrices (CUTLASS's are named by it), so a result's rows can count, too:
// on an H100 cuBLAS 13.1 runs a forward over 50,257 words, whose operands are aligned, by
// cutlass_75_tensorop ... align1, seven times as long as over 50,264. On A100 earlier ones did not
// (calibration/published/vtrain-single.yaml: the head's two gradients alone lose). What counts are
// the rows, so which dimensions they are follows from how the operands lie (ProductLayout).
// Products in FP32 without tensor cores lose nothing (on that H100 1 % and less).

// The part of the rate of aligned products that such a one reaches. Of a single product:
// `gemm_unaligned` where 2 bytes alone divide its rows, `gemm_unaligned_even` where 4 or 8 do,
// which are alike on an H100; where that is zero, as much less for each halving (assumed: the guide
// shows that rates rise at each step, in no table); `gemm_unaligned_result` where 2 bytes alone
// divide the rows of the result, `gemm_unaligned_even` where 4 or 8 do. The least of these counts.
// Of a batch of products, for which libraries have fewer kernels, more with each release:
// `batched_unaligned` of its type and of the cuBLAS that PyTorch `torch` brings, whatever less than
// 16 bytes divides the rows of its operands. Where that is zero a batch counts as single products.
// What is zero of the others is not known, and loses nothing.
double UnalignedRate(const Kernel& product, const calibration::KernelCosts& costs, Version torch);

// The same product with rows filled up to 16 bytes, as torch.compile runs it where that is faster
// (torch/_inductor/fx_passes/pad_mm.py): operands that grow are written before, which `copied`
// counts, reading included; what reads the result leaves out what was added.
struct PaddedProduct {
  Kernel product;
  Bytes copied;
};
PaddedProduct Padded(const Kernel& product);

// How fast a board's power lets products and attention run for as long as training takes.
//
// Dynamic power goes with frequency times voltage squared, and voltage with frequency, so a device
// that would draw `idle + products` at full clock and may draw `limit` runs at the cube root of
// (limit - idle) / products.
//
// What is held to the limit L is the mean over kernels that take turns within milliseconds. Where
// those that memory bounds draw W < L, they leave the others
//
//   L + (L - W) M / (A / c)
//
//   A  time of products and attention at full clock, A / c at the clock c that they then hold
//   M  time of everything else, whatever the clock
//
// (calibration/h100-sxm.yaml has the measurement.) What a device draws while it waits for others is
// not counted.

// The part of its clock that the device holds: at most 1; 1 where the profile or the data sheet is
// silent (limit_watts = 0).
double SustainedClock(const calibration::PowerDraw& power, double limit_watts);

// A micro-batch in seconds, at full clock. Only their ratios matter.
struct MicroBatchDraw {
  double arithmetic = 0;  // A
  // That its flops take at the rate of the best products, times watts of their type over
  // PowerDraw::products.
  double at_best = 0;
  double other = 0;       // M
};

// Watts that products and attention may draw while they run; the limit where the profile does not
// say what kernels draw that memory bounds.
double ArithmeticLimit(const calibration::PowerDraw& power, double limit_watts,
                       const MicroBatchDraw& draw);

}  // namespace stepcast::cost
