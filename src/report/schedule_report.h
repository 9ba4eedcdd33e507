#pragma once

#include <string>
#include <vector>

#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_timing.h"
#include "src/report/terminal_style.h"

// The output of `stepcast schedule`.
namespace stepcast::report {

// A schedule and what it amounts to with equal stages and free communication.
struct TimedSchedule {
  std::string name;  // "1f1b", or the file that it is from
  parallel::PipelineSchedule schedule;
  parallel::PassDurations durations;
  parallel::ScheduleTiming timing;
  std::vector<int> in_flight;  // [stage]
};

// A row for each stage and slots from left to right, as papers draw schedules; then a table by
// stage, and the bubble (schedule_drawing.h).
std::string ScheduleText(const TimedSchedule& schedule, const TerminalStyle& style);

// `schedule --json`: {"stepcast": 1, "schedule", "micro_batches", "durations": {...}, "slots",
// "bubble", "stages": [{"stage", "chunks", "in_flight", "busy_slots", "idle_slots", "actions":
// [{"action", "begin", "end"}]}]}.
std::string ScheduleJson(const TimedSchedule& schedule);

}  // namespace stepcast::report
