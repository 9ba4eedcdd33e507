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

// How well a forecast is known, by what its profile says of its own residuals.
//
// A residual is the median of relative absolute deviations; for errors of a normal distribution the
// standard deviation is 1.4826 times as large. A profile's two residuals of a part, spread and
// interpolation, are independent: r = 1.4826 sqrt(spread^2 + interpolation^2).
//
// Within a part errors are systematic: if the profile takes matrix products for 5 % too fast, it
// does so for all of them. Between parts they are independent. So a step whose parts are exposed
// for the times T_i has the standard deviation
//
//   s = sqrt(sum over parts of (r_i T_i)^2 + (r_step T)^2 + (r_source T)^2 + (v T / 1.645)^2)
//
// where r_step is what remains between steps of one source that were measured and forecasts of
// them, whatever the parts, and r_source by how much steps of a source are off to which nothing was
// fitted: other code, other software, another cluster. v is by what the slowest of all devices is
// forecast to be slower than a typical one (cost/device_speed.h): how unequal the devices of a
// cluster are is not known, so they may cost nothing or twice as much. What a collective hides
// behind kernels counts for nothing, also where a longer one would come to light. Nine of ten
// measurements are expected within 1.645 s.
namespace stepcast::forecast {

// The kind of operation that an instant of a step is spent on, and the name of its residual.
enum class Part : std::uint8_t {
  kGemm,           // "gemm"
  kAttention,      // "attention"
  kMemoryBound,    // "memory_bound"
  kOptimizer,      // "optimizer"
  kCollective,     // "collectives": exposed, measured or between measured points
  kCollectiveLaw,  // "collective_law": exposed, modelled
  kIdle,           // "launch": the host, mostly
  kGiven,          // times that are inputs: known
  kScan,           // "scan": recurrent layers
};
inline constexpr std::size_t kParts = 9;
// Of recurrent layers' kernels, without a residual of their own: their rates are those of one
// device and one library, which others exceed threefold or fall short of by half.
inline constexpr double kScanDeviation = 0.4;
std::string_view ResidualOf(Part part);

using PartTimes = std::array<Time, kParts>;

// Every instant of [start, end) belongs to one part, so that they add up to its length. `kernels`:
// all that run then (KernelSpansOf).
PartTimes ExposedTimes(const program::Program& program, const program::Timeline& timeline,
                       const cost::Prices& prices, Time start, Time end,
                       const KernelSpans& kernels);

// How many standard deviations around the mean hold nine of ten values of a normal distribution.
inline constexpr double kNineOfTen = 1.6449;

// The normal distribution's standard deviation over its median absolute deviation.
inline constexpr double kDeviations = 1.4826;

// Half of a range over the residual that it follows from.
inline constexpr double kHalfWidthOfResidual = kNineOfTen * kDeviations;

// Within which nine of ten measurements of a step time are expected. A part without a residual
// counts with the largest of the other parts, unless the profile has one of whole steps, which then
// covers it. None where the profile has neither.
std::optional<TimeRange> StepTimeRange(const PartTimes& exposed, Time step_time,
                                       const std::vector<calibration::Residual>& residuals,
                                       double slowest_device = 0);

// The same for a peak of memory, by the residual "memory".
std::optional<BytesRange> MemoryRange(Bytes peak,
                                      const std::vector<calibration::Residual>& residuals);

// The residual "memory" of a profile that has none: that of the shipped ones, which says nothing of
// the GPU.
inline constexpr double kMemoryResidual = 0.063;

// The probability that what a caching allocator holds is at most `available`, where the forecast is
// `reserved`. Half of the published peaks lie within 1.9 % of their forecasts, but nine of ten only
// within 13 %, seven times as far; of a normal distribution it would be 2.4 times, of a Cauchy
// distribution it is 6.3. So the relative error is taken to be of the latter, around the median of
// the published peaks that fill half to four fifths of their device, 0.1 % below the forecast, and
// nine of ten of it lie as far from that as MemoryRange reaches. stepcast validate published, "How
// probable it is that a peak fits", holds it against all check rows.
double FitProbability(Bytes available, Bytes reserved,
                      const std::vector<calibration::Residual>& residuals);

// The part of what the allocator holds that has to be left of a device for the plan to fit with a
// probability of kLikelyFit. The search for a plan leaves as much free.
double MemoryError(const std::vector<calibration::Residual>& residuals);

}  // namespace stepcast::forecast
