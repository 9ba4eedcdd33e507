#pragma once

#include "src/base/bytes.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The channels that a collective launched alone really uses, of the `most` that were chosen for it;
// each occupies a multiprocessor (NVIDIA/nccl, src/enqueue.cc). NCCL deals the data out in cells
// worth some KiB of traffic, 32 KiB since 2.30 and 16 KiB before, where a byte of an all-reduce
// counts twice, one of a rank's part in an all-gather or reduce-scatter as many times as there are
// ranks, and for LL everything four times. CollNet always uses all.
int ChannelsUsed(const Collective& collective, Algorithm algorithm, Protocol protocol, int ranks,
                 int most, Version version);

}  // namespace stepcast::nccl
