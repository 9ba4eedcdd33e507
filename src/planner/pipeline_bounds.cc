#include "src/planner/pipeline_bounds.h"

#include <algorithm>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::planner {

using parallel::Task;

Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks) {
  std::vector<parallel::PassDurations> passes;
  for (const ChunkWork& chunk : chunks) passes.push_back(chunk.passes);
  const parallel::ScheduleTiming timing = parallel::Time(schedule, passes);
  Time bound;
  for (std::size_t s = 0; s < schedule.stages.size(); ++s) {
    const std::vector<int>& own = schedule.stages[s].chunks;
    if (std::find(own.begin(), own.end(), 0) == own.end() || timing.spans[s].empty()) continue;
    bound = std::max(bound, Picoseconds(timing.spans[s].back().end));
  }
  return bound;
}

std::vector<Bytes> ActivationsInFlight(const parallel::PipelineSchedule& schedule,
                                       std::span<const ChunkWork> chunks) {
  std::vector<Bytes> most;
  for (const parallel::PipelineSchedule::Stage& stage : schedule.stages) {
    Bytes& peak = most.emplace_back();
    Bytes saved;
    for (const parallel::ScheduleEntry& entry : stage.entries) {
      std::vector<parallel::Action> actions = parallel::ActionsOf(entry);
      // Where a pair's passes run in turns, the forward comes by what the backward lets go of.
      std::reverse(actions.begin(), actions.end());
      for (const parallel::Action& action : actions) {
        const ChunkWork& chunk = chunks[static_cast<std::size_t>(action.chunk)];
        if (action.task == Task::kForward) {
          saved += chunk.saved;
          peak = std::max(peak, saved);
        } else if (action.task != Task::kBackwardWeight) {
          // The second part of a backward keeps some of it: left out.
          saved -= chunk.saved;
          peak = std::max(peak, saved + chunk.backward);
        }
      }
    }
    STEPCAST_CHECK(saved == Bytes(), "a step ends with nothing in flight");
  }
  return most;
}

}  // namespace stepcast::planner
