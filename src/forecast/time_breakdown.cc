#include "src/forecast/time_breakdown.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "src/forecast/intervals.h"

namespace stepcast::forecast {
namespace {

using program::Opcode;

// The instants of a cluster by phase: the compute stream's come first.
void AddPhases(const KernelSpans& kernels, const KernelCluster& cluster, TimeBreakdown& time) {
  const auto add = [&time](program::Phase phase, Time length) {
    time.phase[static_cast<std::size_t>(phase)] += length;
  };
  if (cluster.alone()) {
    return add(kernels.spans[cluster.first].phase, cluster.end - cluster.start);
  }
  std::array<Intervals, program::kPhases> compute, beside;
  for (std::size_t i = cluster.first; i < cluster.last; ++i) {
    const KernelSpan& span = kernels.spans[i];
    auto& streams = span.stream == program::Program::kComputeStream ? compute : beside;
    Append({span.start, span.end}, streams[static_cast<std::size_t>(span.phase)]);
  }
  Intervals left{{cluster.start, cluster.end}};
  for (auto* streams : {&compute, &beside}) {
    for (int phase = 0; phase < program::kPhases; ++phase) {
      const Intervals own = Union(std::move((*streams)[phase]));
      add(static_cast<program::Phase>(phase), Length(Intersection(left, own)));
      left = Difference(left, own);
    }
  }
}

}  // namespace

Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits) {
  return BreakDown(program, timeline, start, end, host_waits,
                   KernelSpansOf(program, timeline, start, end, HostStreams(program)));
}

Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits, const KernelSpans& kernels) {
  const auto clip = [&](Time from, Time to) {
    return Interval{std::max(from, start), std::min(to, end)};
  };
  Breakdown result;
  for (const KernelCluster& cluster : kernels.clusters) AddPhases(kernels, cluster, result.time);

  Intervals running, under_way, waiting, members_awaited, stages_awaited;
  std::vector<Time> free(program.communicators.size());  // since when
  for (const program::OperationRecord& record : timeline.operations) {
    const program::Instruction& instruction = program.step[record.instruction];
    if (!program::Communicates(instruction.opcode)) continue;
    // One whose turn has come and that has not started waits for another member, or for the other
    // end of a message.
    Time& free_since = free[program.CommunicatorOf(instruction)];
    const Time turn = std::max(record.ready, free_since);
    free_since = record.end;
    if (record.end <= start || record.ready >= end) continue;
    Append(clip(record.start, record.end), running);
    Append(clip(record.ready, record.end), under_way);
    if (turn < record.start && turn < end && record.start > start) {
      const bool exchange = instruction.opcode == Opcode::kExchange;
      (exchange ? stages_awaited : members_awaited).push_back(clip(turn, record.start));
    }
    // Kernels behind it on its stream wait for it without a wait.
    if (instruction.stream == program::Program::kComputeStream) {
      waiting.push_back(clip(record.ready, record.end));
    }
  }
  for (const program::WaitRecord& record : timeline.waits) {
    if (record.end > start && record.start < end) waiting.push_back(clip(record.start, record.end));
  }
  waiting.push_back(clip(host_waits, end));
  const Intervals awaited = Intersection(
      kernels.gaps, Intersection(Union(std::move(under_way)), Union(std::move(waiting))));
  const Intervals imbalance = Intersection(awaited, Union(std::move(members_awaited)));
  const Intervals not_imbalance = Difference(awaited, imbalance);
  const Intervals bubble = Intersection(not_imbalance, Union(std::move(stages_awaited)));
  result.exposed = Difference(not_imbalance, bubble);
  result.time.exposed_communication = Length(result.exposed);
  result.time.imbalance = Length(imbalance);
  result.time.pipeline_bubble = Length(bubble);
  result.time.idle = Length(kernels.gaps) - Length(awaited);
  result.communication_total = Length(Union(std::move(running)));
  return result;
}

}  // namespace stepcast::forecast
