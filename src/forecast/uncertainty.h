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

// How accurate a forecast is, from the residuals in its profile.
//
// A residual is the median of relative absolute deviations. For normally distributed errors the
// standard deviation is 1.4826 times as large. A profile's two residuals of a part, spread and
// interpolation, are independent: r = 1.4826 sqrt(spread^2 + interpolation^2).
//
// Errors within a part are systematic: if the profile is 5 % too fast for one matrix product, it is
// 5 % too fast for all of them. Errors of different parts are independent. A step whose parts are
// exposed for the times T_i therefore has the standard deviation
//
//   s = sqrt(sum over parts of (r_i T_i)^2 + (r_step T)^2 + (r_source T)^2 + (v T / 1.645)^2)
//
// - r_step is the remaining deviation between measured and forecast steps of one source.
// - r_source is the deviation of sources to which nothing was fitted: other code, software or
//   clusters.
// - v is the forecast slowdown by the slowest device over a typical one (cost/device_speed.h). How
//   unequal the devices of a cluster are is unknown, so the slowdown may be zero or twice as large.
//
// Collectives hidden behind kernels count as zero, even if a longer one would be exposed. 90 % of
// measurements are expected within 1.645 s.
namespace stepcast::forecast {

// The kinds of operations to which parts of a step's time belong, with the names of their
// residuals.
enum class Part : std::uint8_t {
  kGemm,           // "gemm"
  kAttention,      // "attention"
  kMemoryBound,    // "memory_bound"
  kOptimizer,      // "optimizer"
  kCollective,     // "collectives": exposed, measured or between measured points
  kCollectiveLaw,  // "collective_law": exposed, modeled
  kIdle,           // "launch": mostly waiting for the host
  kGiven,          // times given as inputs: no error
  kScan,           // "scan": recurrent layers
};
inline constexpr std::size_t kParts = 9;
// The relative standard deviation of kScan, which has no residual. The rates of scans were measured
// on one device with one library. Other measurements range from half to three times that speed.
inline constexpr double kScanDeviation = 0.4;
std::string_view ResidualOf(Part part);

using PartTimes = std::array<Time, kParts>;

// Attributes all time in [start, end) to parts of the step. The parts add up to end - start.
// `kernels` are all kernels in that time (KernelSpansOf).
PartTimes ExposedTimes(const program::Program& program, const program::Timeline& timeline,
                       const cost::Prices& prices, Time start, Time end,
                       const KernelSpans& kernels);

// 90 % of a normal distribution lie within this many standard deviations of the mean.
inline constexpr double kNineOfTen = 1.6449;

// The standard deviation of a normal distribution divided by its median absolute deviation.
inline constexpr double kDeviations = 1.4826;

// The half-width of a 90 % range, divided by the residual from which the range is computed.
inline constexpr double kHalfWidthOfResidual = kNineOfTen * kDeviations;

// Returns the range that contains 90 % of measured step times. For a part without a residual, the
// largest residual of the other parts is used. If the profile has a residual of whole steps, this
// residual includes such a part. None if the profile has no residuals.
std::optional<TimeRange> StepTimeRange(const PartTimes& exposed, Time step_time,
                                       const std::vector<calibration::Residual>& residuals,
                                       double slowest_device = 0);

// Returns the range that contains 90 % of measured memory peaks. It is computed from the residual
// "memory".
std::optional<BytesRange> MemoryRange(Bytes peak,
                                      const std::vector<calibration::Residual>& residuals);

// The residual "memory" for a profile that states none. It is taken from the shipped profiles and
// is the same for all GPUs.
inline constexpr double kMemoryResidual = 0.063;

// Returns the probability that a caching allocator holds at most `available` bytes when the
// forecast is `reserved`.
//
// For half of the published peaks, the forecast error is at most 1.9 %. For 90 %, it is at most
// 13 %, which is seven times as much. This ratio is 2.4 for a normal distribution and 6.3 for a
// Cauchy distribution, so the relative error is modeled as Cauchy. The median comes from published
// peaks that fill half to four fifths of their device, 0.1 % below the forecast. The scale makes 90
// % lie within MemoryRange. `stepcast validate published`, "Probability that a peak fits", compares
// this probability with all check rows.
double FitProbability(Bytes available, Bytes reserved,
                      const std::vector<calibration::Residual>& residuals);

// Returns the fraction of the allocator's memory that must stay free for a fit probability of
// kLikelyFit. The search for a plan leaves this fraction free.
double MemoryError(const std::vector<calibration::Residual>& residuals);

}  // namespace stepcast::forecast
