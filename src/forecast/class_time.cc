#include "src/forecast/class_time.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/cost/device_speed.h"
#include "src/forecast/time_breakdown.h"
#include "src/program/description.h"

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

// The calls of one collective in one group, on any communicator. There may be several
// communicators: tensor-parallel layers have one, and the sum of gradients over parts of the tokens
// another (lowering/gradients.h).
struct Sum {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string_view group;
  CollectiveSummary summary;
  std::vector<std::string_view> algorithms, protocols;
};

void Note(std::string_view name, std::vector<std::string_view>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.push_back(name);
}

std::string Joined(std::vector<std::string_view>& names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += '+';
    text += name;
  }
  return text;
}

Sum& SumOf(CollectiveKind kind, std::string_view group, cost::Provenance provenance,
           std::vector<Sum>& sums) {
  for (Sum& known : sums) {
    if (known.kind == kind && known.group == group) return known;
  }
  Sum& sum = sums.emplace_back();
  sum.kind = kind;
  sum.group = group;
  sum.summary.provenance = provenance;
  return sum;
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

std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer) {
  std::vector<Sum> sums;
  const auto group_of = [&program](program::Index communicator) -> std::string_view {
    return program.groups[program.communicators[communicator].group].name;
  };
  std::vector<std::uint32_t> sum_of(counts.collectives.size());  // by operand
  for (std::size_t operand = 0; operand < counts.collectives.size(); ++operand) {
    const std::int64_t calls = counts.collectives[operand];
    if (calls == 0) continue;
    const program::Collective& collective = program.collectives[operand];
    const cost::CollectivePrice& price = prices.collectives[operand];
    Sum& sum =
        SumOf(collective.kind, group_of(collective.communicator), price.demand.provenance, sums);
    sum_of[operand] = static_cast<std::uint32_t>(&sum - sums.data());
    CollectiveSummary& summary = sum.summary;
    summary.calls += calls;
    summary.wire_bytes_per_rank += static_cast<double>(calls) * price.wire_bytes_per_rank;
    summary.provenance = std::max(summary.provenance, price.demand.provenance);
    summary.channels = std::max(summary.channels, price.channels);
    Note(price.algorithm, sum.algorithms);
    Note(price.protocol, sum.protocols);
  }
  // Exchanges are listed together with collectives.
  std::vector<std::uint32_t> sum_of_exchange(counts.exchanges.size());
  for (std::size_t operand = 0; operand < counts.exchanges.size(); ++operand) {
    const std::int64_t calls = counts.exchanges[operand];
    if (calls == 0) continue;
    Sum& sum = SumOf(CollectiveKind::kSendRecv, group_of(program.exchanges[operand].communicator),
                     prices.exchanges[operand].front().demand.provenance, sums);
    sum_of_exchange[operand] = static_cast<std::uint32_t>(&sum - sums.data());
    CollectiveSummary& summary = sum.summary;
    summary.calls += calls;
    for (std::size_t i = 0; i < prices.exchanges[operand].size(); ++i) {
      const program::Message& message = program.exchanges[operand].messages[i];
      const cost::MessagePrice& price = prices.exchanges[operand][i];
      if (message.direction == program::MessageDirection::kSend) {
        summary.wire_bytes_per_rank +=
            static_cast<double>(calls) * static_cast<double>(message.bytes.count());
      }
      summary.provenance = std::max(summary.provenance, price.demand.provenance);
      summary.channels = std::max(summary.channels, price.channels);
      Note("pairwise", sum.algorithms);
      Note(price.protocol, sum.protocols);
    }
  }
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step != step) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    const program::Index communicator = program::CommunicatorOf(program, instruction);
    if (communicator == program::kNone) continue;
    const std::vector<std::uint32_t>& sum =
        instruction.opcode == program::Opcode::kExchange ? sum_of_exchange : sum_of;
    sums[sum[instruction.operand]].summary.total +=
        longer.Times(record.instruction) * (record.end - record.start);
  }
  for (Sum& sum : sums) {
    sum.summary.collective = sum.kind;
    sum.summary.group = sum.group;
    sum.summary.algorithm = Joined(sum.algorithms);
    sum.summary.protocol = Joined(sum.protocols);
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
    return std::tie(a.kind, a.group) < std::tie(b.kind, b.group);
  });
  std::vector<CollectiveSummary> summaries;
  summaries.reserve(sums.size());
  for (Sum& sum : sums) summaries.push_back(std::move(sum.summary));
  return summaries;
}

}  // namespace stepcast::forecast
