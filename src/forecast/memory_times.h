#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/memory_timeline.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/simulate/schedule.h"

namespace stepcast::forecast {

// What decides when a run changed memory: when its host began its segments, and when what releases
// wait for ended. A change comes so long after the begin of its segment as the schedule says. Rows
// of a sweep have this in place of a record of each change.
struct MemoryTimes {
  const simulate::Schedule* schedule = nullptr;
  const DelayedReleases* delayed = nullptr;
  std::uint32_t steps = 0;  // were run; all later ones repeat the last of them
  // Of the steps that were run, one after the other.
  std::span<const Time> segments;
  std::vector<Time> ends{};         // of operations, as `delayed` numbers them
  std::span<const Time> step_ends;  // of all steps

  std::size_t step_segments() const {
    return schedule->segments.size() - schedule->prologue_segments;
  }

  // Takes the ends from records of the run: simulate::EndRecord or program::OperationRecord.
  template <typename Record>
  void SetEnds(std::span<const Record> records) {
    ends.assign(std::size_t{steps} * delayed->count(), Time());
    for (const Record& record : records) {
      if (record.step >= steps) continue;
      const std::uint32_t number = delayed->NumberOf(record.instruction);
      if (number != program::kNone) ends[record.step * delayed->count() + number] = record.end;
    }
  }

  // Whether all changes of memory in these steps were over then, and what they waited for.
  bool OverAt(Time time) const;

  // A timeline that has but when memory changed in these steps, and the ends of all.
  program::Timeline Changes() const;
};

}  // namespace stepcast::forecast
