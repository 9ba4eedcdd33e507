#include "src/forecast/time_breakdown.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/forecast/intervals.h"

namespace stepcast::forecast {
namespace {

using program::Opcode;

}  // namespace

Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits) {
  const auto clip = [&](Time from, Time to) {
    return Interval{std::max(from, start), std::min(to, end)};
  };
  // Kernels by phase, the compute stream's apart: they come first where streams overlap.
  std::array<Intervals, program::kPhases> compute, beside;
  Intervals running, under_way, waiting;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.end <= start || record.ready >= end) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode == Opcode::kKernel) {
      auto& streams = instruction.stream == program::Program::kComputeStream ? compute : beside;
      Append(clip(record.start, record.end), streams[static_cast<std::size_t>(instruction.phase)]);
    } else if (instruction.opcode == Opcode::kCollective) {
      Append(clip(record.start, record.end), running);
      Append(clip(record.ready, record.end), under_way);
    }
  }
  for (const program::WaitRecord& record : timeline.waits) {
    if (record.end > start && record.start < end) waiting.push_back(clip(record.start, record.end));
  }

  waiting.push_back(clip(host_waits, end));

  Breakdown result;
  Intervals left{{start, end}};
  for (auto* streams : {&compute, &beside}) {
    for (int phase = 0; phase < program::kPhases; ++phase) {
      const Intervals kernels = Union(std::move((*streams)[phase]));
      result.time.phase[phase] += Length(Intersection(left, kernels));
      left = Difference(left, kernels);
    }
  }
  result.exposed =
      Intersection(left, Intersection(Union(std::move(under_way)), Union(std::move(waiting))));
  result.time.exposed_communication = Length(result.exposed);
  result.time.idle = Length(left) - result.time.exposed_communication;
  result.communication_total = Length(Union(std::move(running)));
  return result;
}

}  // namespace stepcast::forecast
