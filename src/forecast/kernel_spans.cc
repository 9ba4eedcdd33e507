#include "src/forecast/kernel_spans.h"

#include <algorithm>
#include <utility>

namespace stepcast::forecast {

KernelSpans KernelSpansOf(const program::Program& program, const program::Timeline& timeline,
                          Time start, Time end, const std::vector<bool>& without) {
  KernelSpans result;
  std::vector<KernelSpan>& spans = result.spans;
  spans.reserve(timeline.operations.size());
  // They are in the order of ends, which is nearly that of starts.
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

}  // namespace stepcast::forecast
