#pragma once

#include "src/base/bytes.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The channels that a lone collective uses, of the `most` chosen for it; each occupies a
// multiprocessor (NVIDIA/nccl, src/enqueue.cc). NCCL divides the data into cells of some KiB of
// traffic, 32 KiB since 2.30 and 16 KiB before. A byte of an all-reduce counts twice, a byte of a
// rank's part in an all-gather or reduce-scatter once per rank, and for LL everything counts four
// times. CollNet always uses all channels.
int ChannelsUsed(const Collective& collective, Algorithm algorithm, Protocol protocol, int ranks,
                 int most, Version version);

}  // namespace stepcast::nccl
