#pragma once

#include "src/parallel/pipeline_schedule.h"

// Schedules that part backward: gradients of inputs (I), for which the chunk before waits, at once;
// those of weights (W), for which only the update does, where a stage would wait.
namespace stepcast::parallel {

// ZB-H1 (arXiv 2401.10241; ZB1P): 1F1B with the same most activations; stage s runs the weights'
// part s micro-batches behind the inputs'.
PipelineSchedule ZeroBubbleH1(int stages, int micro_batches);

// ZB-H2 (arXiv 2401.10241, section 2.2): from a stage's first pass to its last it does not wait
// where all passes take as long, for nearly twice 1F1B's activations, 2P-1 micro-batches at every
// stage: stage s begins with 2(P-s)-1 forwards and runs the weights' part 2s micro-batches behind
// the inputs'.
PipelineSchedule ZeroBubbleH2(int stages, int micro_batches);

// ZB-V (arXiv 2401.10241, section 6; torch.distributed.pipelining's ScheduleZBVZeroBubble): stage s
// holds chunks s and 2P-1-s, so that the first stage has the loss, too.
PipelineSchedule ZeroBubbleV(int stages, int micro_batches);

// DualPipe (arXiv 2412.19437; deepseek-ai/DualPipe, dualpipe.py): two copies of the model go
// through the stages in opposite directions, half of the micro-batches each; stage s holds chunk s
// of the one and P-1-s of the other. In the steady state a forward of one direction and a backward
// of the other are a pair. Requires an even number of stages, and of micro-batches, of which there
// are at least 2P.
PipelineSchedule DualPipe(int stages, int micro_batches);

// DualPipe cut in half (deepseek-ai/DualPipe, dualpipev.py): one copy, whose chunks s and 2P-1-s
// stage s holds. Requires at least 2P micro-batches.
PipelineSchedule DualPipeV(int stages, int micro_batches);

}  // namespace stepcast::parallel
