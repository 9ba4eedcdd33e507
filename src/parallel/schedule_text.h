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
// F: forward; B: backward; I: input gradients; W: weight gradients. The number of the micro-batch
// follows the letter. `F2+B0` is an overlapping pair. Other entries are `unshard`, `reshard` and
// `reduce`. By default, stage s has chunk s. If the stage has other chunks, its line lists the
// chunks, and the chunk of every entry follows a dot:
//
//  stage 0 holds 0 3: unshard.0 F0.0 F1.0 F0.3 F1.3+B0.3
namespace stepcast::parallel {

// Returns the letter of a task: F, B, I or W.
char Letter(Task task);
std::optional<Task> TaskOf(char letter);

// Returns an entry as text, such as "F3". If `stage_chunk` is -1 or not the entry's chunk, the text
// includes the entry's chunk: "F3.1".
std::string Print(const ScheduleEntry& entry, int stage_chunk);
std::string Print(const PipelineSchedule& schedule);

}  // namespace stepcast::parallel
