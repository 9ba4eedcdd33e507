#include "src/parallel/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/check.h"

namespace stepcast::parallel {
namespace {

// A schedule without entries in which stage s has chunk s.
PipelineSchedule OneChunkEach(int stages, int micro_batches) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1, "a schedule has stages and micro-batches");
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  for (int stage = 0; stage < stages; ++stage) {
    schedule.stages.push_back({.chunks = {stage}, .entries = {}});
  }
  return schedule;
}

// A schedule without entries in which stage s has chunks s, s + P, s + 2P, ... in layer order.
PipelineSchedule LoopedChunks(int stages, int micro_batches, int virtual_stages) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1 && virtual_stages >= 1,
                 "a schedule has stages, chunks and micro-batches");
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  for (int s = 0; s < stages; ++s) {
    PipelineSchedule::Stage& stage = schedule.stages.emplace_back();
    for (int chunk = 0; chunk < virtual_stages; ++chunk) stage.chunks.push_back(chunk * stages + s);
  }
  return schedule;
}

}  // namespace

std::vector<Action> ActionsOf(const ScheduleEntry& entry) {
  if (const auto* action = std::get_if<Action>(&entry)) return {*action};
  if (const auto* pair = std::get_if<OverlappedPair>(&entry))
    return {pair->forward, pair->backward};
  return {};
}

int Chunks(const PipelineSchedule& schedule) {
  int chunks = 0;
  for (const PipelineSchedule::Stage& stage : schedule.stages) {
    for (const int chunk : stage.chunks) chunks = std::max(chunks, chunk + 1);
  }
  return chunks;
}

bool SplitsBackward(const PipelineSchedule& schedule) {
  for (const PipelineSchedule::Stage& stage : schedule.stages) {
    for (const ScheduleEntry& entry : stage.entries) {
      for (const Action& action : ActionsOf(entry)) {
        if (action.task == Task::kBackwardInput) return true;
      }
    }
  }
  return false;
}

std::vector<std::vector<int>> StagesOfPasses(const PipelineSchedule& schedule) {
  const int chunks = Chunks(schedule);
  std::vector<std::vector<int>> stages(
      static_cast<std::size_t>(chunks),
      std::vector<int>(static_cast<std::size_t>(schedule.micro_batches), -1));
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    for (const ScheduleEntry& entry : schedule.stages[stage].entries) {
      for (const Action& action : ActionsOf(entry)) {
        const bool exists = action.chunk >= 0 && action.chunk < chunks && action.micro_batch >= 0 &&
                            action.micro_batch < schedule.micro_batches;
        if (!exists) continue;
        stages[static_cast<std::size_t>(action.chunk)]
              [static_cast<std::size_t>(action.micro_batch)] = static_cast<int>(stage);
      }
    }
  }
  return stages;
}

PipelineSchedule Sequential(int micro_batches) { return OneForwardOneBackward(1, micro_batches); }

PipelineSchedule GPipe(int stages, int micro_batches) {
  PipelineSchedule schedule = OneChunkEach(stages, micro_batches);
  for (int s = 0; s < stages; ++s) {
    std::vector<ScheduleEntry>& entries = schedule.stages[static_cast<std::size_t>(s)].entries;
    for (int i = 0; i < micro_batches; ++i) entries.push_back(Action{Task::kForward, i, s});
    for (int i = 0; i < micro_batches; ++i) entries.push_back(Action{Task::kBackward, i, s});
  }
  return schedule;
}

PipelineSchedule OneForwardOneBackward(int stages, int micro_batches) {
  PipelineSchedule schedule = OneChunkEach(stages, micro_batches);
  for (int s = 0; s < stages; ++s) {
    std::vector<ScheduleEntry>& entries = schedule.stages[static_cast<std::size_t>(s)].entries;
    const int ahead = std::min(stages - 1 - s, micro_batches);
    for (int i = 0; i < ahead; ++i) entries.push_back(Action{Task::kForward, i, s});
    for (int i = 0; i < micro_batches; ++i) {
      if (ahead + i < micro_batches) entries.push_back(Action{Task::kForward, ahead + i, s});
      entries.push_back(Action{Task::kBackward, i, s});
    }
  }
  return schedule;
}

PipelineSchedule InterleavedOneForwardOneBackward(int stages, int micro_batches, int virtual_stages,
                                                  int group) {
  PipelineSchedule schedule = LoopedChunks(stages, micro_batches, virtual_stages);
  if (group == 0) group = stages;
  const int rest = micro_batches % group;
  STEPCAST_CHECK(rest == 0 || rest >= stages, "the last group of micro-batches fills the pipeline");
  // The order in which a stage runs the passes of one direction: a micro-batch, and the number of
  // chunks before it.
  std::vector<std::pair<int, int>> order;
  for (int first = 0; first < micro_batches; first += group) {
    const int end = std::min(first + group, micro_batches);
    for (int chunk = 0; chunk < virtual_stages; ++chunk) {
      for (int i = first; i < end; ++i) order.emplace_back(i, chunk);
    }
  }
  const auto passes = static_cast<int>(order.size());
  for (int s = 0; s < stages; ++s) {
    std::vector<ScheduleEntry>& entries = schedule.stages[static_cast<std::size_t>(s)].entries;
    const auto run = [&](Task task, int pass) {
      const auto [micro_batch, chunk] = order[static_cast<std::size_t>(pass)];
      const int place = task == Task::kForward ? chunk : virtual_stages - 1 - chunk;
      entries.push_back(Action{task, micro_batch, place * stages + s});
    };
    const int ahead = std::min(2 * (stages - 1 - s) + (virtual_stages - 1) * group, passes);
    for (int i = 0; i < ahead; ++i) run(Task::kForward, i);
    for (int i = 0; i < passes; ++i) {
      if (ahead + i < passes) run(Task::kForward, ahead + i);
      run(Task::kBackward, i);
    }
  }
  return schedule;
}

PipelineSchedule BreadthFirst(int stages, int micro_batches, int virtual_stages) {
  PipelineSchedule schedule = LoopedChunks(stages, micro_batches, virtual_stages);
  for (PipelineSchedule::Stage& stage : schedule.stages) {
    const auto run = [&](Task task, int chunk) {
      for (int i = 0; i < micro_batches; ++i) stage.entries.push_back(Action{task, i, chunk});
    };
    for (const int chunk : stage.chunks) run(Task::kForward, chunk);
    for (auto chunk = stage.chunks.rbegin(); chunk != stage.chunks.rend(); ++chunk) {
      run(Task::kBackward, *chunk);
    }
  }
  return schedule;
}

PipelineSchedule Combined(PipelineSchedule schedule) {
  for (PipelineSchedule::Stage& stage : schedule.stages) {
    std::vector<ScheduleEntry> entries;
    for (const ScheduleEntry& entry : stage.entries) {
      const auto* forward = std::get_if<Action>(&entry);
      const auto* backward = entries.empty() ? nullptr : std::get_if<Action>(&entries.back());
      if (forward != nullptr && forward->task == Task::kForward && backward != nullptr &&
          backward->task == Task::kBackward) {
        entries.back() = OverlappedPair{*forward, *backward};
      } else {
        entries.push_back(entry);
      }
    }
    stage.entries = std::move(entries);
  }
  return schedule;
}

}  // namespace stepcast::parallel
