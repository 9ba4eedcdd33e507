#pragma once

#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/parallel/pipeline_schedule.h"

// Pipeline schedules in the format of torch.distributed.pipelining's _PipelineScheduleRuntime
// (`_load_csv`, format "compute_only"). The file has one row per pipeline rank and no headings. A
// cell is an action, `<stage><action><micro-batch>`. A stage in PyTorch is a chunk of the model.
// Example:
//
//   0F0,0F1,,0B0,0B1
//   1F0,1B0,1F1,1B1
//
// F is forward, B backward, I the gradients of inputs and W the gradients of weights.
// `(0F1;3B0)OVERLAP_F_B` is an overlapping pair. `0UNSHARD`, `0RESHARD` and `0REDUCE_GRAD` have no
// micro-batch. An empty cell has no effect, because actions start when their inputs are ready.
namespace stepcast::formats {

// Reads and checks a schedule. A row's stage has the chunks that occur in the row. Errors: the
// errors of ParseCsvRows; schedule.action (an invalid cell); schedule.not-runnable (the rows
// deadlock, parallel/schedule_check.h).
Result<parallel::PipelineSchedule> ParseScheduleCsv(std::string_view text, const std::string& file);

// Returns the text of a schedule, without empty cells. Parsing the text returns the same schedule.
std::string ScheduleCsv(const parallel::PipelineSchedule& schedule);

}  // namespace stepcast::formats
