#pragma once

#include <string>

#include "src/parallel/pipeline_schedule.h"
#include "src/parallel/schedule_timing.h"
#include "src/report/terminal_style.h"

namespace stepcast::report {

// A row for each stage, a scale of slots below, and what the letters stand for. Where the width has
// no room for the numbers of micro-batches, a slot is one column; slots that it has no room for
// even then are left out in the middle, where steps repeat themselves. Lines say what is left out,
// and which width would have room for it. Ends in a newline.
std::string ScheduleDrawing(const parallel::PipelineSchedule& schedule,
                            const parallel::ScheduleTiming& timing, const TerminalStyle& style);

}  // namespace stepcast::report
