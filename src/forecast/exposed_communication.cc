#include "src/forecast/exposed_communication.h"

#include <algorithm>
#include <map>

#include "src/forecast/intervals.h"
#include "src/forecast/time_breakdown.h"
#include "src/program/description.h"

namespace stepcast::forecast {

std::vector<ExposedCall> ExposedCalls(const ClassRun& run, std::uint32_t step) {
  const auto& ends = run.timeline.step_ends;
  const Time start = ends[step - 1], end = ends[step];
  Intervals left = BreakDown(run.program, run.timeline, start, end, run.host_waits).exposed;
  std::vector<const program::OperationRecord*> collectives;
  for (const program::OperationRecord& record : run.timeline.operations) {
    if (record.end <= start || record.ready >= end) continue;
    const program::Instruction& instruction = run.program.step[record.instruction];
    if (program::CommunicatorOf(run.program, instruction) != program::kNone) {
      collectives.push_back(&record);
    }
  }
  std::stable_sort(collectives.begin(), collectives.end(),
                   [](const auto* a, const auto* b) { return a->ready < b->ready; });
  std::map<program::Index, Time> exposed;
  for (const program::OperationRecord* record : collectives) {
    const Intervals own{{std::max(record->ready, start), std::min(record->end, end)}};
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
