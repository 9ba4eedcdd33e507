#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/parallel/pipeline_schedule.h"

// Schedules as text, a line for each stage:
//
//   stage 0: F0 F1 B0 B1
//   stage 1: F0 B0 F1 B1
//
// F forward, B backward, I its gradients of inputs, W its gradients of weights, with the number of
// the micro-batch; `F2+B0` a pair that overlaps; `unshard`, `reshard`, `reduce`. A stage that
// holds other chunks than that of its own number names them, and then every entry has its chunk
// behind a dot:
//
//   stage 0 holds 0 3: unshard.0 F0.0 F1.0 F0.3 F1.3+B0.3
namespace stepcast::parallel {

// F, B, I or W.
char Letter(Task task);
std::optional<Task> TaskOf(char letter);

// "F3". Where `stage_chunk` is another chunk or -1, "F3.1".
std::string Print(const ScheduleEntry& entry, int stage_chunk);
std::string Print(const PipelineSchedule& schedule);

// The reverse; micro-batches are as many as the highest number says. Blank lines are left out.
// `file` names the text in positions. Errors, all at once: schedule.stage (a line is not "stage N:"
// with N counting from 0, or names chunks wrongly), schedule.action (an entry is none of the
// above). What the lists mean together is CheckSchedule's to say (schedule_check.h).
Result<PipelineSchedule> ParseSchedule(std::string_view text, const std::string& file);

}  // namespace stepcast::parallel
