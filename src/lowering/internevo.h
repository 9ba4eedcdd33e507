#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// InternEvo's hybrid ZeRO-1 (InternLM/InternEvo internlm/solver/optimizer/hybrid_zero_optim.py
// @ 00a2a342, configs/7B_sft.py @ 00de6134).
//
//  * A rank keeps all parameters and all gradients in the type of the computation. The optimizer's
//    states are dealt out tensor by tensor within a group of shard_group_size ranks (`zero1`): the
//    largest first, each to the rank that has the fewest elements so far.
//  * In the last micro-batch gradients go into a bucket as they become ready. One that would exceed
//    bucket_size sends it off: copied together, averaged over all data-parallel ranks by an
//    all-reduce that the backward does not wait for. Behind it the bucket before is waited for and
//    copied back into its gradients. Without overlap (`overlap_sync_grad`) this comes after the
//    backward, in registration order.
//  * The update takes the norm of the rank's own gradients, on which the ranks that share the model
//    (tensor and pipeline) agree, then the group, and for which the host waits
//    (solver/optimizer/utils.py, compute_norm); clips, updates, and the host waits again. Then every owner broadcasts its
//    tensors in the group, one broadcast after the other, and the next forward waits for all of
//    them (overlap_sync_param is off by default). A group with more ranks than tensors has as many
//    broadcasts as tensors.
//
// Values are not described: broadcasts of a step program come from a group's first rank.
program::Program LowerInternEvo(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
