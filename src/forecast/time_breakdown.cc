#include "src/forecast/time_breakdown.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/forecast/intervals.h"
#include "src/program/description.h"
#include "src/program/instruction.h"

namespace stepcast::forecast {
KernelSpans KernelSpansOf(const program::Program& program, const program::Timeline& timeline,
                          Time start, Time end, const std::vector<bool>& without) {
  KernelSpans result;
  std::vector<KernelSpan>& spans = result.spans;
  spans.reserve(timeline.operations.size());
  // Records are ordered by their ends, which is nearly the order of starts.
  const auto add = [&](const KernelSpan& span) {
    if (span.end <= span.start || (!without.empty() && without[span.stream])) return;
    spans.push_back(span);
    for (std::size_t i = spans.size() - 1; i > 0 && spans[i].start < spans[i - 1].start; --i) {
      std::swap(spans[i], spans[i - 1]);
    }
  };
  for (const program::OperationRecord& record : timeline.operations) {
    const program::Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode != program::Opcode::kKernel) continue;
    add({.start = std::max(record.start, start),
         .end = std::min(record.end, end),
         .stream = instruction.stream,
         .phase = instruction.phase,
         .instruction = record.instruction});
  }

  Time covered = start;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const KernelSpan& span = spans[i];
    if (!result.clusters.empty() && span.start < result.clusters.back().end) {
      KernelCluster& cluster = result.clusters.back();
      cluster.last = i + 1;
      cluster.end = std::max(cluster.end, span.end);
    } else {
      if (span.start > covered) result.gaps.push_back({covered, span.start});
      result.clusters.push_back({.first = i, .last = i + 1, .start = span.start, .end = span.end});
    }
    covered = result.clusters.back().end;
  }
  if (covered < end) result.gaps.push_back({covered, end});
  return result;
}

std::vector<bool> HostStreams(const program::Program& program) {
  std::vector<bool> host;
  if (std::none_of(program.kernels.begin(), program.kernels.end(),
                   [](const Kernel& kernel) { return kernel.on_host; })) {
    return host;
  }
  host.resize(program.streams.size());
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != program::Opcode::kKernel) continue;
    if (instruction.stream == program::Program::kComputeStream) continue;
    if (program.kernels[instruction.operand].on_host) host[instruction.stream] = true;
  }
  return host;
}

namespace {

using program::Opcode;

// Divides the instants of a cluster by phase; the compute stream's kernels have priority.
void AddPhases(const KernelSpans& kernels, const KernelCluster& cluster, TimeBreakdown& time) {
  const auto add = [&time](program::Phase phase, Time length) {
    time.phase[static_cast<std::size_t>(phase)] += length;
  };
  if (cluster.single()) {
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

// The operation that a wait waits for: the last one on the stream before the event was recorded.
struct Awaited {
  program::Index instruction = program::kNone;
  std::uint32_t steps_before = 0;
};

// [instruction of the step].
std::vector<Awaited> AwaitedOperations(const program::Program& program) {
  program::WaitTargets targets;
  FindWaitTargets(program, targets);
  std::vector<program::Index> last(program.streams.size(), program::kNone);
  std::vector<program::Index> before(program.step.size(), program::kNone);  // a record
  for (program::Index i = 0; i < program.step.size(); ++i) {
    const program::Instruction& instruction = program.step[i];
    if (instruction.opcode == Opcode::kRecordEvent) before[i] = last[instruction.stream];
    if (program::IsLaunched(instruction.opcode)) last[instruction.stream] = i;
  }
  std::vector<Awaited> awaited(program.step.size());
  for (program::Index i = 0; i < program.step.size(); ++i) {
    const Opcode opcode = program.step[i].opcode;
    if (opcode != Opcode::kWaitEvent && opcode != Opcode::kHostWaitEvent) continue;
    const program::WaitTarget& target = targets.step[i];
    if (target.record == program::kNone) continue;
    awaited[i] = {.instruction = before[target.record],
                  .steps_before = target.step_before ? 1U : 0U};
  }
  return awaited;
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
  std::map<std::pair<std::uint32_t, program::Index>, Interval> without_peers;  // exchanges
  std::vector<Time> free(program.communicators.size());                        // since when
  for (const program::OperationRecord& record : timeline.operations) {
    const program::Instruction& instruction = program.step[record.instruction];
    const program::Index communicator = program::CommunicatorOf(program, instruction);
    if (communicator == program::kNone) continue;
    // A collective whose turn has come and that has not started waits for another member; an
    // exchange waits for a peer.
    Time& free_since = free[communicator];
    const Time turn = std::max(record.ready, free_since);
    free_since = record.end;
    if (record.end <= start || record.ready >= end) continue;
    Append(clip(record.start, record.end), running);
    Append(clip(record.ready, record.end), under_way);
    if (turn < record.start && turn < end && record.start > start) {
      if (instruction.opcode == Opcode::kCollective) {
        members_awaited.push_back(clip(turn, record.start));
      } else {
        without_peers[{record.step, record.instruction}] = clip(turn, record.start);
        if (instruction.stream == program::Program::kComputeStream) {
          peers_awaited.push_back(clip(turn, record.start));
        }
      }
    }
    // Later kernels on its stream wait for it without a wait instruction.
    if (instruction.stream == program::Program::kComputeStream) {
      waiting.push_back(clip(record.ready, record.end));
    }
  }
  for (const program::WaitRecord& record : timeline.waits) {
    if (record.end > start && record.start < end) waiting.push_back(clip(record.start, record.end));
  }
  // If several exchanges have begun, the one that the stream waits for counts.
  if (!without_peers.empty()) {
    const std::vector<Awaited> awaited = AwaitedOperations(program);
    for (const program::WaitRecord& record : timeline.waits) {
      const Awaited& of = awaited[record.instruction];
      const auto found = without_peers.find({record.step - of.steps_before, of.instruction});
      if (found == without_peers.end()) continue;
      const Interval own = {std::max(record.start, found->second.start),
                            std::min(record.end, found->second.end)};
      if (own.start < own.end) peers_awaited.push_back(own);
    }
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
