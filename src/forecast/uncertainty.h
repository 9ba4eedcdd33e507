#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/cost/prices.h"
#include "src/forecast/time_breakdown.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/program/timeline.h"

// The accuracy of a forecast, from the residuals in its profile.
//
// A residual is a median of relative absolute deviations. For normally distributed errors, the
// standard deviation is 1.4826 times the residual. The spread and the interpolation residual of a
// part are independent: r = 1.4826 sqrt(spread^2 + interpolation^2).
//
// Errors of one part are systematic: if the profile is 5 % too fast for one matrix multiplication,
// it is 5 % too fast for all. Errors of different parts are independent. If the parts of a step are
// exposed for the times T_i, the standard deviation of the step time T is therefore
//
//   s = sqrt(sum over parts of (r_i T_i)^2 + (r_step T)^2 + (r_source T)^2 + (v T / 1.645)^2)
//
//   - r_step is the remaining deviation between measured and forecast steps of one source.
//   - r_source is the additional deviation for other sources: other code, software or clusters, to
//     which nothing was fitted.
//   - v is the forecast slowdown by the slowest device (cost/device_speed.h). The actual
//     differences between the devices of a cluster are unknown, so the slowdown may be zero or
//     twice as large.
//
// Collectives hidden behind kernels contribute zero, even if longer collectives would be exposed.
// 90 % of measurements are expected to differ from the forecast by at most 1.645 x s, where s is
// from the formula.
namespace stepcast::forecast {

// The parts of a step's time by kind of operation, with the names of their residuals.
enum class Part : std::uint8_t {
  kGemm,           // "gemm"
  kAttention,      // "attention"
  kMemoryBound,    // "memory_bound"
  kOptimizer,      // "optimizer"
  kCollective,     // "collectives": exposed, priced by measurements or interpolation
  kCollectiveLaw,  // "collective_law": exposed, priced by a model
  kIdle,           // "launch": mostly waiting for the host
  kGiven,          // durations that are inputs, without error
  kScan,           // "scan": recurrent layers
};
inline constexpr std::size_t kParts = 9;
// The relative standard deviation of kScan, which has no residual. Scans were measured on one
// device with one library. Rates in other measurements are between 0.5 and 3 times as high.
inline constexpr double kScanDeviation = 0.4;
std::string_view ResidualOf(Part part);

using PartTimes = std::array<Time, kParts>;

// Divides the time in [start, end) into parts. `kernels` are all kernels in [start, end)
// (KernelSpansOf).
PartTimes ExposedTimes(const program::Program& program, const program::Timeline& timeline,
                       const cost::Prices& prices, Time start, Time end,
                       const KernelSpans& kernels);

// The number of standard deviations around the mean that contain 90 % of a normal distribution.
inline constexpr double kNineOfTen = 1.6449;

// The standard deviation of a normal distribution divided by its median absolute deviation.
inline constexpr double kDeviations = 1.4826;

// The half-width of a 90 % range, divided by the residual from which the range is computed.
inline constexpr double kHalfWidthOfResidual = kNineOfTen * kDeviations;

// Returns the range that contains 90 % of measured step times. A part without a residual has the
// largest residual of the other parts, or zero if the profile has a residual of complete steps.
// None if the profile has no residuals.
std::optional<TimeRange> StepTimeRange(const PartTimes& exposed, Time step_time,
                                       const std::vector<calibration::Residual>& residuals,
                                       double slowest_device = 0);

// Returns the range that contains 90 % of measured memory peaks, from the residual "memory".
std::optional<BytesRange> MemoryRange(Bytes peak,
                                      const std::vector<calibration::Residual>& residuals);

// The residual "memory" that is assumed if a profile lacks this residual: the value of the shipped
// profiles, for all GPUs.
inline constexpr double kMemoryResidual = 0.063;

// Returns the probability that a caching allocator reserves at most `available` bytes if the
// forecast is `reserved`.
//
// The relative error is modeled as a Cauchy distribution. Half of the published peaks have an error
// of at most 1.9 %, and 90 % of the peaks have an error of at most 13 %. The ratio of these two
// errors, 7, is near the ratio for a Cauchy distribution (6.3), and far from the ratio for a normal
// distribution (2.4). The median of the modeled peaks is 0.1 % below the forecast, like the median
// of the published peaks that fill half to four fifths of their device. The scale is chosen so that
// 90 % of the modeled peaks are at most half the width of MemoryRange away from the median. For a
// check, see `stepcast validate published`, "Probability that a peak fits" (docs/accuracy.md).
double FitProbability(Bytes available, Bytes reserved,
                      const std::vector<calibration::Residual>& residuals);

// Returns the fraction of the allocator's memory that must be free for a fit probability of
// kLikelyFit. The plan search leaves this fraction free.
double MemoryError(const std::vector<calibration::Residual>& residuals);

}  // namespace stepcast::forecast
