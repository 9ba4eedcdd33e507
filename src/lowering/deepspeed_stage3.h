#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// DeepSpeed's stage 3 in its steady state (deepspeed/runtime/zero/{stage3.py @ 007cca6a,
// partition_parameters.py @ 0031ae39, parameter_offload.py @ 042b847a} and
// deepspeed/runtime/comm/coalesced_collectives.py @ 17b3b557).
//  * Every parameter is cut into as many equal parts as there are ranks; small ones stay gathered
//    from step to step.
//  * Hooks around every module gather its parameters in one collective, wait, ask for the next ones
//    in the learned order, and free (ParameterCoordinator). A collective of several parameters is
//    copied together before and apart behind it. The host stays at most three waits ahead.
//    What it frees while the device still reads it is bounded by max_live_parameters, in place of
//    an allocator that makes the host wait when memory is short.
//  * Gradients go into one bucket on a stream of their own; a full one is put together by ranks,
//    divided and reduce-scattered in every micro-batch, and each rank adds its parts to its flat
//    gradients. The host stays at most three reductions ahead, and waits for the last one.
//  * The step frees what stayed gathered, updates the own parts sub-group by sub-group, and gathers
//    the small parameters again, one collective each; then the host waits for the device.
program::Program LowerDeepSpeedStage3(const scenario::Scenario& scenario,
                                      const LowerOptions& options);

}  // namespace stepcast::lowering
