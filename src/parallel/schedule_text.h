#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/parallel/pipeline_schedule.h"

// Schedules as text, one line per stage:
//
//  stage 0: F0 F1 B0 B1
//  stage 1: F0 B0 F1 B1
//
// F: forward; B: backward; I: its input gradients; W: its weight gradients; each followed by the
// number of the micro-batch. `F2+B0`: an overlapping pair. Other entries: `unshard`, `reshard`,
// `reduce`. If a stage does not have exactly the one chunk with its own number, it lists its
// chunks, and every entry has its chunk after a dot:
//
//  stage 0 holds 0 3: unshard.0 F0.0 F1.0 F0.3 F1.3+B0.3
namespace stepcast::parallel {

// Returns the letter of a task: F, B, I or W.
char Letter(Task task);
std::optional<Task> TaskOf(char letter);

// Returns an entry as text, such as "F3". If `stage_chunk` is another chunk or -1, the text
// includes the chunk: "F3.1".
std::string Print(const ScheduleEntry& entry, int stage_chunk);
std::string Print(const PipelineSchedule& schedule);

// Parses the text of a schedule. The highest micro-batch number determines how many micro-batches
// there are. Blank lines are ignored. `file` is the name of the text in positions. All errors are
// reported together. schedule.stage: a line does not start with "stage N:", where N counts from 0,
// or lists chunks incorrectly. schedule.action: an invalid entry. CheckSchedule checks the lists of
// all stages against each other (schedule_check.h).
Result<PipelineSchedule> ParseSchedule(std::string_view text, const std::string& file);

}  // namespace stepcast::parallel
