#include "src/forecast/exposed_communication.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/forecast/intervals.h"

namespace stepcast::forecast {

using program::Opcode;

std::vector<ExposedCall> ExposedCalls(const Run& run) {
  const auto& ends = run.timeline.step_ends;
  const Time start = ends[run.first_step - 1], end = ends[run.first_step];
  const auto clip = [&](Time from, Time to) {
    return Interval{std::max(from, start), std::min(to, end)};
  };
  // As the breakdown has it: nothing computes, something waits, and a collective is under way.
  Intervals computing, waiting;
  std::vector<const program::OperationRecord*> collectives;
  for (const program::OperationRecord& record : run.timeline.operations) {
    if (record.end <= start || record.ready >= end) continue;
    const Opcode opcode = run.program.step[record.instruction].opcode;
    if (opcode == Opcode::kKernel) computing.push_back(clip(record.start, record.end));
    if (opcode == Opcode::kCollective) collectives.push_back(&record);
  }
  for (const program::WaitRecord& record : run.timeline.waits) {
    if (record.end > start && record.start < end) waiting.push_back(clip(record.start, record.end));
  }
  waiting.push_back(clip(run.host_waits, end));
  Intervals left = Difference(Union(std::move(waiting)), Union(std::move(computing)));
  std::stable_sort(collectives.begin(), collectives.end(),
                   [](const auto* a, const auto* b) { return a->ready < b->ready; });
  std::map<program::Index, Time> exposed;
  for (const program::OperationRecord* record : collectives) {
    const Intervals own = Union({clip(record->ready, record->end)});
    const Time length = Length(Intersection(left, own));
    if (length == Time()) continue;
    exposed[record->instruction] += length;
    left = Difference(left, own);
  }
  std::vector<ExposedCall> calls;
  for (const auto& [instruction, length] : exposed) calls.push_back({instruction, length});
  return calls;
}

}  // namespace stepcast::forecast
