#include "src/parallel/schedule_order.h"

#include <algorithm>
#include <cstddef>

namespace stepcast::parallel {
namespace {

std::size_t AsIndex(int number) { return static_cast<std::size_t>(number); }

}  // namespace

ScheduleDependencies::ScheduleDependencies(const PipelineSchedule& schedule)
    : schedule_(&schedule),
      chunks_(Chunks(schedule)),
      passes_(AsIndex(chunks_) * AsIndex(schedule.micro_batches)) {
  const auto exists = [&](const Action& action) {
    return action.chunk >= 0 && action.chunk < chunks_ && action.micro_batch >= 0 &&
           action.micro_batch < schedule.micro_batches;
  };
  for (int stage = 0; stage < static_cast<int>(schedule.stages.size()); ++stage) {
    const std::vector<ScheduleEntry>& entries = schedule.stages[AsIndex(stage)].entries;
    for (int entry = 0; entry < static_cast<int>(entries.size()); ++entry) {
      for (const Action& action : ActionsOf(entries[AsIndex(entry)])) {
        if (!exists(action) || action.task == Task::kBackwardWeight) continue;
        Passes& passes = passes_[AsIndex(action.chunk) * AsIndex(schedule.micro_batches) +
                                 AsIndex(action.micro_batch)];
        (action.task == Task::kForward ? passes.forward : passes.backward) = {stage, entry};
      }
    }
  }
}

const ScheduleDependencies::Passes& ScheduleDependencies::At(int chunk, int micro_batch) const {
  return passes_[AsIndex(chunk) * AsIndex(schedule_->micro_batches) + AsIndex(micro_batch)];
}

void ScheduleDependencies::Add(const Action& action, std::vector<EntryAt>& needed) const {
  const auto add = [&](EntryAt at) {
    if (at.entry >= 0) needed.push_back(at);
  };
  const Passes& own = At(action.chunk, action.micro_batch);
  switch (action.task) {
    case Task::kForward:
      if (action.chunk > 0) add(At(action.chunk - 1, action.micro_batch).forward);
      return;
    case Task::kBackward:
    case Task::kBackwardInput:
      add(own.forward);
      if (action.chunk + 1 < chunks_) add(At(action.chunk + 1, action.micro_batch).backward);
      return;
    case Task::kBackwardWeight:
      add(own.backward);
      return;
  }
}

std::vector<EntryAt> ScheduleDependencies::Of(EntryAt at) const {
  std::vector<EntryAt> needed;
  const ScheduleEntry& entry = schedule_->stages[AsIndex(at.stage)].entries[AsIndex(at.entry)];
  for (const Action& action : ActionsOf(entry)) Add(action, needed);
  return needed;
}

std::vector<EntryAt> RunOrder(const PipelineSchedule& schedule,
                              const ScheduleDependencies& dependencies) {
  std::vector<EntryAt> order;
  std::vector<int> done(schedule.stages.size());  // [stage] entries that have run
  const auto has_run = [&](const EntryAt& at) { return at.entry < done[AsIndex(at.stage)]; };
  // Stages by turns, each as far as it comes, until none can go on.
  for (bool running = true; running;) {
    running = false;
    for (int stage = 0; stage < static_cast<int>(schedule.stages.size()); ++stage) {
      int& next = done[AsIndex(stage)];
      while (next < static_cast<int>(schedule.stages[AsIndex(stage)].entries.size())) {
        const std::vector<EntryAt> needed = dependencies.Of({stage, next});
        if (!std::all_of(needed.begin(), needed.end(), has_run)) break;
        order.push_back({stage, next++});
        running = true;
      }
    }
  }
  return order;
}

}  // namespace stepcast::parallel
