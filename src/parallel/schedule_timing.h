#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/parallel/pipeline_schedule.h"

// When a schedule's passes run if communication is free: the drawings and closed forms of papers,
// whose stages are equal, and bounds of others.
namespace stepcast::parallel {

// In slots, of one chunk.
struct PassDurations {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::optional<std::int64_t> backward{};  // whole; default: both parts
  // Of a pair that overlaps; default: its two passes one after the other.
  std::optional<std::int64_t> pair{};

  std::int64_t Of(const Action& action) const;
  std::int64_t Of(const ScheduleEntry& entry) const;  // 0 for passes of parameters
  friend bool operator==(const PassDurations&, const PassDurations&) = default;
};

struct ScheduleTiming {
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<std::vector<Span>> spans;  // [stage][entry]
  std::int64_t slots = 0;                // from the first begin to the last end
  std::vector<std::int64_t> idle;        // [stage] slots in which it computes nothing: its bubble
};

// Each stage runs its list in order, each entry as soon as what it needs is done. Of a schedule
// without mistakes (schedule_check.h).
ScheduleTiming Time(const PipelineSchedule& schedule, const PassDurations& durations);

// The same where chunks differ: [chunk]. Passes of a pair run one after the other.
ScheduleTiming Time(const PipelineSchedule& schedule, std::span<const PassDurations> chunks);

}  // namespace stepcast::parallel
