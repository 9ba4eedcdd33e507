#pragma once

#include "src/parallel/pipeline_schedule.h"

// Inserts gathers and frees of sharded parameters and reductions of gradients between a schedule's
// passes, like torch.distributed.pipelining (torch/distributed/pipelining/schedules.py,
// _add_unshard_reshard and _add_reduce_grad). Only for schedules without such entries.
namespace stepcast::parallel {

// Reduces a chunk's gradients after its last micro-batch's backward.
PipelineSchedule WithReductions(PipelineSchedule schedule);

// Before each pass, gathers the parameters of the next `active` chunks that the stage computes
// with, in the order of need, after freeing those of other chunks. All are freed at the end.
// Default three: for a forward, a backward, and one being gathered.
PipelineSchedule WithUnshards(PipelineSchedule schedule, int active = 3);

}  // namespace stepcast::parallel
