#pragma once

#include "src/parallel/pipeline_schedule.h"

// When sharded parameters are gathered and freed, and gradients reduced, between the passes of a
// schedule, as torch.distributed.pipelining puts it in (torch/distributed/pipelining/schedules.py,
// _add_unshard_reshard and _add_reduce_grad). Of schedules that have no such entries yet.
namespace stepcast::parallel {

// A chunk's gradients are reduced behind its last micro-batch's backward.
PipelineSchedule WithReductions(PipelineSchedule schedule);

// Before each pass the parameters of the next `active` chunks that the stage computes with are
// gathered, first those needed first; those of other chunks are freed before, and at the end all.
// Three by default: a forward, a backward, and one that is being gathered.
PipelineSchedule WithUnshards(PipelineSchedule schedule, int active = 3);

}  // namespace stepcast::parallel
