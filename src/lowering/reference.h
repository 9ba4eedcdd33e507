#pragma once

#include "src/lowering/lower_options.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::lowering {

// Textbook data parallelism and ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054), on kernels and
// collectives alone: no launch cost, no copies. The host is in step with the device: it issues a
// layer when the layer before it has been computed, so that memory is held from the moment the
// device needs it. One communicator on its own stream; collectives run in the order issued.
//
//  stage 0     backward; gradients are all-reduced per bucket as they become ready (or after the
//              backward, overlap: false); one update.
//  stage 1, 2  gradients are reduce-scattered per bucket; every rank updates its shard; updated
//              parameters are all-gathered per bucket, in the order of the next forward, while
//              later buckets update and while the next forward runs: a layer waits for its own
//              buckets alone. overlap: false puts reduction, update and all-gather one after the
//              other. Stage 1 keeps full gradients and communicates once a step; stage 2 reduces
//              every micro-batch and keeps the shard (accumulate_unsharded: as stage 1).
//  stage 3     parameters are all-gathered in the compute type before a unit's forward and
//              backward, at most `prefetch` units ahead, and freed after it; gradients as in stage
//              2, per unit unless bucket_size is given. A unit is a layer; layers that share a
//              tied tensor are one.
//
// With shard_group_size < data the above happens inside a shard group, and once a step the reduced
// shards are all-reduced over the replicas.
program::Program LowerReference(const scenario::Scenario& scenario, const LowerOptions& options);

}  // namespace stepcast::lowering
