#include "src/validate/execution.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "src/base/check.h"
#include "src/cost/collective_price.h"
#include "src/forecast/time_breakdown.h"
#include "src/forecast/training_run.h"
#include "src/memory/replay.h"
#include "src/program/description.h"
#include "src/scenario/job_devices.h"

namespace stepcast::validate {
namespace {

using program::Opcode;

Time LatestEnd(const std::vector<RankRun>& ranks, std::uint32_t step) {
  Time end = Time::FromPicoseconds(std::numeric_limits<std::int64_t>::min());
  for (const RankRun& rank : ranks) {
    end = std::max(end, rank.measurement.timeline.step_ends[step]);
  }
  return end;
}

// With barriers, a step begins when the first rank begins it.
Time FirstIssue(const std::vector<RankRun>& ranks, std::uint32_t step, Time end) {
  Time first = end;
  for (const RankRun& rank : ranks) {
    for (const program::OperationRecord& record : rank.measurement.timeline.operations) {
      if (record.step == step) first = std::min(first, record.issued);
    }
  }
  return first;
}

Time LastIssue(const program::Timeline& timeline, std::uint32_t step, Time end) {
  Time last;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step == step) last = std::max(last, record.issued);
  }
  return std::min(last, end);
}

std::vector<MeasuredStep> Steps(const std::vector<RankRun>& ranks, bool barrier) {
  const auto measured =
      static_cast<std::uint32_t>(ranks.front().measurement.timeline.step_ends.size());
  std::vector<MeasuredStep> steps;
  for (std::uint32_t step = barrier ? 0 : 1; step + (barrier ? 0 : 1) < measured; ++step) {
    const Time end = LatestEnd(ranks, step);
    steps.push_back(
        {step, barrier ? FirstIssue(ranks, step, end) : LatestEnd(ranks, step - 1), end});
  }
  return steps;
}

Time Length(const MeasuredStep& step) { return step.end - step.start; }

void FillTime(Execution& execution) {
  const MeasuredStep& step = execution.steps[execution.typical];
  const RankRun& rank = execution.critical();
  const program::Timeline& timeline = rank.measurement.timeline;
  const forecast::Breakdown sum =
      forecast::BreakDown(execution.program_of(rank), timeline, step.start, step.end,
                          execution.barrier ? LastIssue(timeline, step.step, step.end) : step.end);
  forecast::Forecast& figures = execution.figures;
  figures.step_time = Length(step);
  figures.time = sum.time;
  figures.communication_total = sum.communication_total;
}

double BytesSent(const program::Exchange& exchange) {
  double bytes = 0;
  for (const program::Message& message : exchange.messages) {
    if (message.direction != program::MessageDirection::kSend) continue;
    bytes += static_cast<double>(message.bytes.count());
  }
  return bytes;
}

void FillCollectives(Execution& execution) {
  const RankRun& rank = execution.critical();
  const program::Program& program = execution.program_of(rank);
  const std::uint32_t step = execution.steps[execution.typical].step;
  std::map<std::pair<CollectiveKind, std::string>, forecast::CollectiveSummary> sums;
  for (const program::OperationRecord& record : rank.measurement.timeline.operations) {
    const program::Instruction& instruction = program.step[record.instruction];
    const program::Index communicator = program::CommunicatorOf(program, instruction);
    if (communicator == program::kNone || record.step != step) continue;
    const program::ProcessGroup& group = program.groups[program.communicators[communicator].group];
    const bool exchanges = instruction.opcode == Opcode::kExchange;
    const CollectiveKind kind =
        exchanges ? CollectiveKind::kSendRecv : program.collectives[instruction.operand].kind;
    forecast::CollectiveSummary& sum = sums[{kind, group.name}];
    sum.collective = kind;
    sum.group = group.name;
    sum.calls += 1;
    sum.wire_bytes_per_rank +=
        exchanges ? BytesSent(program.exchanges[instruction.operand])
                  : cost::WireBytesPerRank(kind, program.collectives[instruction.operand].bytes,
                                           static_cast<int>(group.ranks.size()));
    sum.algorithm = execution.backend;
    sum.provenance = cost::Provenance::kMeasured;
    sum.total += record.end - record.start;
  }
  for (auto& [key, sum] : sums) execution.figures.collectives.push_back(std::move(sum));
}

void FillMemory(const scenario::Scenario& scenario, Execution& execution) {
  const auto fullest = std::max_element(
      execution.ranks.begin(), execution.ranks.end(), [](const RankRun& a, const RankRun& b) {
        return a.measurement.memory.peak < b.measurement.memory.peak;
      });
  const runtime::MemoryUse& use = fullest->measurement.memory;
  forecast::MemoryForecast& memory = execution.figures.memory;
  memory.rank = fullest->place.rank;
  memory.peak = use.peak;
  memory.reserved = use.reserved;
  memory.outside = use.outside;
  memory.capacity = scenario::OfKind(scenario, scenario::KindOfRank(scenario, memory.rank))
                        .cluster->device_memory();
  memory.fits = true;  // it ran
  // Every allocation succeeds, since the program ran.
  const memory::Usage usage = memory::Record(execution.program_of(*fullest),
                                             fullest->measurement.timeline, memory::kUnlimited)
                                  .usage;
  if (usage.peak != use.peak) return;
  memory.at_peak = usage.at_peak;
  memory.padding = usage.padding;
}

}  // namespace

int StepsToMeasure(int steps, bool barrier) { return barrier ? steps : steps + 2; }

Execution Summarise(const scenario::Scenario& scenario, std::vector<program::Program> programs,
                    std::vector<RankRun> ranks, bool barrier, std::string backend,
                    std::vector<std::pair<std::string, std::string>> machine) {
  STEPCAST_CHECK(!ranks.empty(), "an execution must have at least one rank");
  Execution execution;
  execution.backend = std::move(backend);
  execution.machine = std::move(machine);
  execution.programs = std::move(programs);
  execution.ranks = std::move(ranks);
  execution.barrier = barrier;
  execution.steps = Steps(execution.ranks, barrier);
  STEPCAST_CHECK(!execution.steps.empty(), "a step was measured");

  std::vector<std::size_t> order(execution.steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return Length(execution.steps[a]) < Length(execution.steps[b]);
  });
  // For an even number, the lower of the two middle ones, so that it is a real step.
  execution.typical = order[(order.size() - 1) / 2];
  execution.shortest = Length(execution.steps[order.front()]);
  execution.longest = Length(execution.steps[order.back()]);

  const std::uint32_t step = execution.steps[execution.typical].step;
  for (std::size_t rank = 1; rank < execution.ranks.size(); ++rank) {
    const auto end_of = [&](std::size_t of) {
      return execution.ranks[of].measurement.timeline.step_ends[step];
    };
    if (end_of(rank) > end_of(static_cast<std::size_t>(execution.critical_rank))) {
      execution.critical_rank = static_cast<int>(rank);
    }
  }
  FillTime(execution);
  FillCollectives(execution);
  FillMemory(scenario, execution);
  forecast::FillThroughput(scenario, execution.figures);
  return execution;
}

}  // namespace stepcast::validate
