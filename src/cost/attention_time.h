#pragma once

#include <cstdint>

#include "src/base/kernel.h"
#include "src/calibration/calibration.h"
#include "src/cost/measured_time.h"

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
namespace stepcast::cost {

// Of FlashAttention-2's forward with head sizes of 64 and 128 (Dao 2023, arXiv 2307.08691).
inline constexpr std::int64_t kQueryRows = 128;

// Of kAttention or kAttentionGradient, by the surface of its direction and data type, which is not
// empty. `multiprocessors` is zero where the device's are not known: time then goes with the heads.
MeasuredTime TimeOfAttention(const calibration::AttentionSurface& surface, const Kernel& kernel,
                             int multiprocessors);

}  // namespace stepcast::cost
