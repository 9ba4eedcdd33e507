#pragma once

#include "src/parallel/pipeline_schedule.h"

// Inserts operations between a schedule's passes: gathers and frees of sharded parameters, and
// reductions of gradients, like torch.distributed.pipelining
// (torch/distributed/pipelining/schedules.py, _add_unshard_reshard and _add_reduce_grad). Only for
// schedules that do not contain such operations.
namespace stepcast::parallel {

// Reduces a chunk's gradients after its last micro-batch's backward.
PipelineSchedule WithReductions(PipelineSchedule schedule);

// Before each pass, frees the parameters of other chunks and gathers those of the next `active`
// chunks that the stage uses, in the order of use. All are freed at the end. By default three
// chunks: one in forward, one in backward, and one being gathered.
PipelineSchedule WithUnshards(PipelineSchedule schedule, int active = 3);

}  // namespace stepcast::parallel
