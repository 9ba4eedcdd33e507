#include "src/forecast/class_time.h"

#include <cstddef>
#include <vector>

#include "src/cost/device_speed.h"
#include "src/forecast/time_breakdown.h"

namespace stepcast::forecast {
namespace {

struct Span {
  Time start, end;
};

Span DescribedOf(const std::vector<Time>& ends, const SteadyState& steady) {
  return {StartOf(ends, steady), ends[steady.last]};
}

Span PeriodOf(const MoreTime& more) { return {more.begin, more.begin + more.length}; }

struct Look {
  Breakdown sum;
  PartTimes exposed;
};

Look LookAt(const TimedClass& own, const Span& span, Time host_waits) {
  const auto spans = [&](const std::vector<bool>& without) {
    return KernelSpansOf(own.program, own.timeline, span.start, span.end, without);
  };
  const KernelSpans kernels = spans({});
  const std::vector<bool> host = HostStreams(own.program);
  return {BreakDown(own.program, own.timeline, span.start, span.end, host_waits,
                    host.empty() ? kernels : spans(host)),
          ExposedTimes(own.program, own.timeline, own.prices, span.start, span.end, kernels)};
}

void Add(const PartTimes& other, std::int64_t times, PartTimes& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += times * other[i];
}

void Add(const Breakdown& other, std::int64_t times, Breakdown& sum) {
  for (int phase = 0; phase < program::kPhases; ++phase) {
    sum.time.phase[phase] += times * other.time.phase[phase];
  }
  sum.time.exposed_communication += times * other.time.exposed_communication;
  sum.time.imbalance += times * other.time.imbalance;
  sum.time.pipeline_bubble += times * other.time.pipeline_bubble;
  sum.communication_total += times * other.communication_total;
}

}  // namespace

PartTimes ExposedTimesOf(const TimedClass& own, const SteadyRun& run) {
  const auto exposed = [&](const Span& span) {
    return ExposedTimes(own.program, own.timeline, own.prices, span.start, span.end,
                        KernelSpansOf(own.program, own.timeline, span.start, span.end));
  };
  PartTimes times = exposed(DescribedOf(run.ends, run.steady));
  for (Time& part : times) part = Mean(part, run.steady.count);
  if (own.more) Add(exposed(PeriodOf(*own.more)), own.more->times, times);
  return times;
}

std::optional<TimeRange> RangeOf(const PartTimes& exposed, Time step_time,
                                 const calibration::Calibration& profile, int devices) {
  const double slowest =
      profile.kernels ? cost::SlowestDevice(profile.kernels->variation, devices) - 1 : 0;
  return StepTimeRange(exposed, step_time, profile.residuals, slowest);
}

void SummariseTime(const TimedClass& own, const SteadyState& steady, Time host_waits,
                   const calibration::Calibration& profile, int devices, Forecast& forecast) {
  Look look = LookAt(own, DescribedOf(own.timeline.step_ends, steady), host_waits);
  for (Time& part : look.exposed) part = Mean(part, steady.count);
  forecast.step_time = StepTimeOf(own.timeline.step_ends, steady);
  if (own.more) {
    const Span period = PeriodOf(*own.more);
    const Look more = LookAt(own, period, period.end);
    Add(more.sum, own.more->times, look.sum);
    Add(more.exposed, own.more->times, look.exposed);
    forecast.step_time += own.more->times * own.more->length;
  }
  const Breakdown& sum = look.sum;
  forecast.communication_total = Mean(sum.communication_total, steady.count);
  Time attributed;
  for (int phase = 0; phase < program::kPhases; ++phase) {
    forecast.time.phase[phase] = Mean(sum.time.phase[phase], steady.count);
    attributed += forecast.time.phase[phase];
  }
  forecast.time.exposed_communication = Mean(sum.time.exposed_communication, steady.count);
  forecast.time.imbalance = Mean(sum.time.imbalance, steady.count);
  forecast.time.pipeline_bubble = Mean(sum.time.pipeline_bubble, steady.count);
  attributed +=
      forecast.time.exposed_communication + forecast.time.imbalance + forecast.time.pipeline_bubble;
  forecast.step_time_range = RangeOf(look.exposed, forecast.step_time, profile, devices);
  // The rounding error of a mean over several steps counts as idle.
  forecast.time.idle = forecast.step_time - attributed;
}

}  // namespace stepcast::forecast
