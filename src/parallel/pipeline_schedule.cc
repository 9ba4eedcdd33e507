#include "src/parallel/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/check.h"

namespace stepcast::parallel {
namespace {

// A schedule without entries in which stage s has chunk s.
PipelineSchedule OneChunkEach(int stages, int micro_batches) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1,
                 "a schedule must have at least one stage and one micro-batch");
  PipelineSchedule schedule{.micro_batches = micro_batches, .stages = {}};
  for (int stage = 0; stage < stages; ++stage) {
    schedule.stages.push_back({.chunks = {stage}, .entries = {}});
  }
  return schedule;
}

// A schedule without entries in which stage s has chunks s, s + P, s + 2P, ... in layer order.
PipelineSchedule LoopedChunks(int stages, int micro_batches, int virtual_stages) {
  STEPCAST_CHECK(stages >= 1 && micro_batches >= 1 && virtual_stages >= 1,
                 "a schedule must have at least one stage, one chunk and one micro-batch");
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
  STEPCAST_CHECK(rest == 0 || rest >= stages,
                 "the last group of micro-batches must fill the "
                 "pipeline");
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

namespace {

using Kind = ParameterPass::Kind;

// The first `count` chunks used by entries from `begin` on; a pair adds both of its chunks.
std::vector<int> NextChunks(const std::vector<ScheduleEntry>& entries, std::size_t begin,
                            std::size_t count) {
  std::vector<int> next;
  for (std::size_t i = begin; i < entries.size() && next.size() < count; ++i) {
    for (const Action& action : ActionsOf(entries[i])) {
      if (std::find(next.begin(), next.end(), action.chunk) == next.end()) {
        next.push_back(action.chunk);
      }
    }
  }
  return next;
}

}  // namespace

PipelineSchedule WithReductions(PipelineSchedule schedule) {
  for (PipelineSchedule::Stage& stage : schedule.stages) {
    std::map<int, int> ended;  // by chunk: micro-batches
    std::vector<ScheduleEntry> entries;
    for (const ScheduleEntry& entry : stage.entries) {
      entries.push_back(entry);
      for (const Action& action : ActionsOf(entry)) {
        if (!EndsBackward(action.task) || ++ended[action.chunk] < schedule.micro_batches) continue;
        entries.push_back(ParameterPass{Kind::kReduceGradients, action.chunk});
      }
    }
    stage.entries = std::move(entries);
  }
  return schedule;
}

PipelineSchedule WithUnshards(PipelineSchedule schedule, int active) {
  for (PipelineSchedule::Stage& stage : schedule.stages) {
    std::set<int> gathered;
    std::vector<ScheduleEntry> entries;
    const auto reshard_but = [&](const std::vector<int>& kept) {
      std::erase_if(gathered, [&](int chunk) {
        if (std::find(kept.begin(), kept.end(), chunk) != kept.end()) return false;
        entries.push_back(ParameterPass{Kind::kReshard, chunk});
        return true;
      });
    };
    for (std::size_t i = 0; i < stage.entries.size(); ++i) {
      const ScheduleEntry& entry = stage.entries[i];
      if (!ActionsOf(entry).empty()) {
        const std::vector<int> next =
            NextChunks(stage.entries, i, static_cast<std::size_t>(active));
        reshard_but(next);
        for (const int chunk : next) {
          if (gathered.insert(chunk).second) {
            entries.push_back(ParameterPass{Kind::kUnshard, chunk});
          }
        }
      }
      entries.push_back(entry);
    }
    reshard_but({});
    stage.entries = std::move(entries);
  }
  return schedule;
}

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
