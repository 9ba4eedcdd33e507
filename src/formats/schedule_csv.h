#pragma once

#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/parallel/pipeline_schedule.h"

// Pipeline schedules in the format of torch.distributed.pipelining's _PipelineScheduleRuntime
// (`_load_csv`, format "compute_only"): a row for each rank of the pipeline, without headings; a
// cell for each action, `<stage><action><micro-batch>`, where PyTorch's stage is a chunk of the
// model:
//
//   0F0,0F1,,0B0,0B1
//   1F0,1B0,1F1,1B1
//
// F forward, B backward, I its gradients of inputs, W those of weights; `(0F1;3B0)OVERLAP_F_B` a
// pair that overlaps; `0UNSHARD`, `0RESHARD`, `0REDUCE_GRAD`; an empty cell is a slot without an
// action, and says nothing: actions start when what they need is done.
namespace stepcast::formats {

// Reads and checks a schedule. A row's stage holds the chunks that it has actions of. Errors, all
// at once: those of ParseCsvRows; schedule.action (a cell is none of the above);
// schedule.not-runnable (the lists together cannot run, parallel/schedule_check.h).
Result<parallel::PipelineSchedule> ParseScheduleCsv(std::string_view text, const std::string& file);

// The reverse, without empty cells.
std::string ScheduleCsv(const parallel::PipelineSchedule& schedule);

}  // namespace stepcast::formats
