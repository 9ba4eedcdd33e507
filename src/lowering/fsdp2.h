#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// PyTorch's fully_shard (FSDP2: torch/distributed/fsdp/_fully_shard/, read at PyTorch 2.6.0 and
// 2.14.1), applied to every block and then to the model; embedding, final norm and head are the
// root unit. Parameters are sharded one by one on dimension 0, padded to equal rows.
//
// Streams: compute, all-gather copy-in, all-gather, reduce-scatter and, with hybrid sharding,
// all-reduce. All-gathers and reduce-scatters share one communicator, so they run in issue order.
//
//  * Unshard of a unit: copy-in (copy-in stream) casts the local shards into this rank's slice of
//    the gather buffer; all-gather; copy-out (compute stream) splits it into full parameters.
//    Forward: the all-gather streams wait for the copy-out of the unit before last, so that the
//    host, running ahead, overlaps one unit (implicit prefetch); three units' worth of memory.
//    prefetch 2 and up: explicit, that many units are unsharded ahead. prefetch 0: the all-gather
//    waits for the compute before it. Backward: `prefetch` units ahead, issued before the unit's
//    gradient kernels.
//  * After a unit's backward: its parameters are freed; gradients are copied into the
//    reduce-scatter buffer in reduce_dtype (compute stream, which first waits for the previous
//    reduce-scatter: one buffer in flight); reduce-scatter; with hybrid sharding an all-reduce of
//    the shard over the replicas; cast to the parameters' type, and from the second micro-batch on
//    added to the sharded gradient.
//  * reshard_after_forward: true frees a unit after its forward (never the root), false keeps it,
//    k keeps a shard over groups of k ranks, from which backward gathers.
//  * accumulate_unsharded (set_requires_gradient_sync(False)): all but the last micro-batch keep
//    full gradients, in reduce_dtype where that differs from the compute type, and no reduction.
//  * cpu_offload (CPUOffloadPolicy, pinned memory): before copy-in the shard is copied to the
//  device
//    on the copy-in stream (_fsdp_param.py, all_gather_inputs); the reduced shard is copied to the
//    host on the stream that reduced it, and freed (foreach_reduce). From the second micro-batch on
//    the host waits for that copy, and its CPUs add. At the end of backward the host waits for the
//    last copy; then its CPUs update.
//  * In a pipeline (torch/distributed/pipelining/stage.py) each chunk is a module with a root of its
//    own. Parameters stay gathered behind backwards (set_reshard_after_backward), and no backward
//    reduces (set_requires_gradient_sync): full gradients are kept as above, and behind a chunk's
//    last one its units' gradients are reduced one after the other, the root's first, for which the
//    compute stream waits (_post_backward). Where the schedule says when chunks are gathered
//    (parallel/parameter_passes.h), all units of a chunk are copied in on the compute stream and
//    gathered, and copied out before the chunk's next pass.
//  * The end of backward waits for the last reduction. Sharded gradients are freed after the
//    update (zero_grad(set_to_none=True)).
program::Program LowerFsdp2(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
