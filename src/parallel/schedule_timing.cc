
#include <algorithm>
#include <cstddef>

#include "src/base/check.h"
#include "src/parallel/schedule_check.h"

namespace stepcast::parallel {

std::int64_t PassDurations::Of(const ScheduleEntry& entry) const {
  if (std::holds_alternative<OverlappedPair>(entry) && pair) return *pair;
  std::int64_t slots = 0;
  for (const Action& action : ActionsOf(entry)) slots += Of(action);
  return slots;
}

std::int64_t PassDurations::Of(const Action& action) const {
  switch (action.task) {
    case Task::kForward:
      return forward;
    case Task::kBackward:
      return backward.value_or(backward_input + backward_weight);
    case Task::kBackwardInput:
      return backward_input;
    case Task::kBackwardWeight:
      return backward_weight;
  }
  return 0;
}

namespace {

template <typename DurationOf>
ScheduleTiming TimeBy(const PipelineSchedule& schedule, const DurationOf& duration_of) {
  ScheduleTiming timing;
  std::size_t entries = 0;
  for (const PipelineSchedule::Stage& stage : schedule.stages) {
    timing.spans.emplace_back(stage.entries.size());
    entries += stage.entries.size();
  }
  const auto span = [&](const EntryAt& at) -> ScheduleTiming::Span& {
    return timing.spans[static_cast<std::size_t>(at.stage)][static_cast<std::size_t>(at.entry)];
  };
  const ScheduleDependencies dependencies(schedule);
  const std::vector<EntryAt> order = RunOrder(schedule, dependencies);
  STEPCAST_CHECK(order.size() == entries, "a valid schedule must not have a cycle");
  std::vector<std::int64_t> busy(schedule.stages.size());
  for (const EntryAt& at : order) {
    std::int64_t begin = at.entry > 0 ? span({at.stage, at.entry - 1}).end : 0;
    for (const EntryAt& needed : dependencies.Of(at)) begin = std::max(begin, span(needed).end);
    const auto stage = static_cast<std::size_t>(at.stage);
    const std::int64_t duration =
        duration_of(schedule.stages[stage].entries[static_cast<std::size_t>(at.entry)]);
    span(at) = {begin, begin + duration};
    busy[stage] += duration;
    timing.slots = std::max(timing.slots, begin + duration);
  }
  for (const std::int64_t slots : busy) timing.idle.push_back(timing.slots - slots);
  return timing;
}

}  // namespace

ScheduleTiming Time(const PipelineSchedule& schedule, const PassDurations& durations) {
  return TimeBy(schedule, [&](const ScheduleEntry& entry) { return durations.Of(entry); });
}

ScheduleTiming Time(const PipelineSchedule& schedule, std::span<const PassDurations> chunks) {
  return TimeBy(schedule, [&](const ScheduleEntry& entry) {
    std::int64_t slots = 0;
    for (const Action& action : ActionsOf(entry)) {
      slots += chunks[static_cast<std::size_t>(action.chunk)].Of(action);
    }
    return slots;
  });
}

}  // namespace stepcast::parallel
