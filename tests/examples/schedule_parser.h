#pragma once

#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {

// Parses the text of a schedule. The highest micro-batch number determines how many micro-batches
// there are. Blank lines are ignored. `file` names the text in positions. All errors are reported
// together: schedule.stage (a line does not start with "stage N:" where N counts from 0, or lists
// chunks incorrectly), schedule.action (an invalid entry). CheckSchedule checks the lists of all
// stages against each other (schedule_check.h).
Result<PipelineSchedule> ParseSchedule(std::string_view text, const std::string& file);

}  // namespace stepcast::parallel
