#include "src/parallel/parameter_passes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace stepcast::parallel {
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

}  // namespace stepcast::parallel
