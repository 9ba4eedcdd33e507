#include "src/forecast/time_breakdown.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "src/forecast/intervals.h"

namespace stepcast::forecast {
namespace {

using program::Opcode;

// Which streams stand for the host's own work beside the device's: loading data, writing a
// checkpoint, drives. What runs there is no phase of the device's. Empty: none.
std::vector<bool> HostStreams(const program::Program& program) {
  std::vector<bool> host;
  if (std::none_of(program.kernels.begin(), program.kernels.end(),
                   [](const Kernel& kernel) { return kernel.on_host; })) {
    return host;
  }
  host.resize(program.streams.size());
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kKernel) continue;
    if (instruction.stream == program::Program::kComputeStream) continue;
    if (program.kernels[instruction.operand].on_host) host[instruction.stream] = true;
  }
  return host;
}

}  // namespace

Breakdown BreakDown(const program::Program& program, const program::Timeline& timeline, Time start,
                    Time end, Time host_waits, std::span<const simulate::KernelRow> rows) {
  const auto clip = [&](Time from, Time to) {
    return Interval{std::max(from, start), std::min(to, end)};
  };
  // Kernels by phase, the compute stream's apart: they come first where streams overlap.
  std::array<Intervals, program::kPhases> compute, beside;
  Intervals running, under_way, waiting;
  const std::vector<bool> host = HostStreams(program);
  const auto add_kernels = [&](std::uint16_t stream, program::Phase phase, Time from, Time to) {
    if (!host.empty() && host[stream]) return;
    auto& streams = stream == program::Program::kComputeStream ? compute : beside;
    Append(clip(from, to), streams[static_cast<std::size_t>(phase)]);
  };
  // Both are in the order of ends, and so are the intervals.
  auto row = rows.begin();
  const auto add_rows_until = [&](Time time) {
    for (; row != rows.end() && row->end <= time; ++row) {
      if (row->end <= start || row->start >= end) continue;
      add_kernels(row->stream, row->phase, row->start, row->end);
    }
  };
  for (const program::OperationRecord& record : timeline.operations) {
    add_rows_until(record.end);
    if (record.end <= start || record.ready >= end) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode == Opcode::kKernel) {
      add_kernels(instruction.stream, instruction.phase, record.start, record.end);
    } else if (instruction.opcode == Opcode::kCollective) {
      Append(clip(record.start, record.end), running);
      Append(clip(record.ready, record.end), under_way);
    }
  }
  add_rows_until(Time::Max());
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
