#include "src/parallel/schedule_repetition.h"

#include <algorithm>
#include <cstddef>
#include <variant>

namespace stepcast::parallel {
namespace {

Action Later(Action action, int micro_batches) {
  action.micro_batch += micro_batches;
  return action;
}

bool IsLater(const ScheduleEntry& later, const ScheduleEntry& entry, int micro_batches) {
  if (const auto* action = std::get_if<Action>(&entry)) {
    const auto* other = std::get_if<Action>(&later);
    return other != nullptr && *other == Later(*action, micro_batches);
  }
  if (const auto* pair = std::get_if<OverlappedPair>(&entry)) {
    const auto* other = std::get_if<OverlappedPair>(&later);
    return other != nullptr && other->forward == Later(pair->forward, micro_batches) &&
           other->backward == Later(pair->backward, micro_batches);
  }
  return later == entry;
}

template <typename Visit>  // Visit(micro_batch)
void ForEachMicroBatch(const ScheduleEntry& entry, Visit visit) {
  if (const auto* action = std::get_if<Action>(&entry)) {
    visit(action->micro_batch);
  } else if (const auto* pair = std::get_if<OverlappedPair>(&entry)) {
    visit(pair->forward.micro_batch);
    visit(pair->backward.micro_batch);
  }
}

MicroBatchRange RepeatedIn(const std::vector<ScheduleEntry>& entries, int micro_batches,
                           int period) {
  std::vector<std::size_t> last_pass(static_cast<std::size_t>(micro_batches));
  std::size_t begin = 0, end = entries.size();  // behind the first micro-batch, before the last
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ForEachMicroBatch(entries[i], [&](int micro_batch) {
      last_pass[static_cast<std::size_t>(micro_batch)] = i;
      if (micro_batch == 0) begin = i + 1;
      if (micro_batch == micro_batches - 1) end = std::min(end, i);
    });
  }
  // The last micro-batch that has ended before `end`, and the one a period before it.
  int last = micro_batches - 1;
  while (last >= 0 && last_pass[static_cast<std::size_t>(last)] >= end) --last;
  if (last < period) return {};
  const std::size_t length = last_pass[static_cast<std::size_t>(last)] -
                             last_pass[static_cast<std::size_t>(last - period)];
  if (length == 0 || end < length) return {};
  std::size_t repeated = end - length;  // entries from here on are repeated a period later
  while (repeated > begin &&
         IsLater(entries[repeated - 1 + length], entries[repeated - 1], period)) {
    --repeated;
  }
  MicroBatchRange range{last + 1, last + 1};
  while (range.first >= period &&
         last_pass[static_cast<std::size_t>(range.first - period)] >= repeated) {
    range.first -= period;
  }
  return range;
}

}  // namespace

std::vector<MicroBatchRange> RepeatedMicroBatches(const PipelineSchedule& schedule, int period) {
  std::vector<MicroBatchRange> ranges;
  for (const PipelineSchedule::Stage& stage : schedule.stages) {
    ranges.push_back(RepeatedIn(stage.entries, schedule.micro_batches, period));
  }
  return ranges;
}

}  // namespace stepcast::parallel
