#include "src/forecast/time_breakdown.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "src/forecast/intervals.h"
#include "src/program/description.h"

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

  Intervals running, under_way, waiting, members_awaited, peers_awaited;
  std::vector<Time> free(program.communicators.size());  // since when
  for (const program::OperationRecord& record : timeline.operations) {
    const program::Instruction& instruction = program.step[record.instruction];
    const program::Index communicator = program::CommunicatorOf(program, instruction);
    if (communicator == program::kNone) continue;
    // A collective whose turn has come and that has not started waits for another member, an
    // exchange for a peer.
    Time& free_since = free[communicator];
    const Time turn = std::max(record.ready, free_since);
    free_since = record.end;
    if (record.end <= start || record.ready >= end) continue;
    Append(clip(record.start, record.end), running);
    Append(clip(record.ready, record.end), under_way);
    if (turn < record.start && turn < end && record.start > start) {
      Intervals& awaited =
          instruction.opcode == Opcode::kCollective ? members_awaited : peers_awaited;
      awaited.push_back(clip(turn, record.start));
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
  const Intervals communication = Difference(awaited, imbalance);
  const Intervals bubble = Intersection(communication, Union(std::move(peers_awaited)));
  result.exposed = Difference(communication, bubble);
  result.time.pipeline_bubble = Length(bubble);
  result.time.exposed_communication = Length(result.exposed);
  result.time.imbalance = Length(imbalance);
  result.time.idle = Length(kernels.gaps) - Length(awaited);
  result.communication_total = Length(Union(std::move(running)));
  return result;
}

}  // namespace stepcast::forecast
