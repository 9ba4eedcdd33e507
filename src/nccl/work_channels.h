#pragma once

#include "src/base/bytes.h"
#include "src/nccl/communicator_model.h"
#include "src/nccl/terms.h"
#include "src/nccl/version.h"

namespace stepcast::nccl {

// The number of channels that a single collective uses, at most `most`. Each occupies a
// multiprocessor (NVIDIA/nccl, src/enqueue.cc). NCCL divides the traffic into cells of 32 KiB (16
// KiB before NCCL 2.30). Each byte of an all-reduce counts twice. Each byte of a rank's part in an
// all-gather or reduce-scatter counts once per rank. For LL, all traffic counts four times. CollNet
// always uses all channels.
int ChannelsUsed(const Collective& collective, Algorithm algorithm, Protocol protocol, int ranks,
                 int most, Version version);

}  // namespace stepcast::nccl
