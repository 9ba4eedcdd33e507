#pragma once

#include "src/base/bytes.h"
#include "src/nccl/communicator.h"
#include "src/nccl/terms.h"

// What NCCL allocates on a GPU. Connections of an algorithm are made when it is first used
// (NVIDIA/nccl, src/transport/p2p.cc, nvls.cc and net.cc, src/init.cc).
namespace stepcast::nccl {

// The receiver's side of a connection on one channel: the buffers of all three protocols, rounded
// up to pages of 2 MiB.
Bytes ConnectionBytes();

// The first use of an algorithm: for each compute channel a ring receives from one peer, a tree
// from up to four (its parent and three children); PAT from one for each power of two of ranks.
// NVLS: for each of its channels and heads, two buffers of eight steps of 128 KiB; NVLSTree has
// these and up to three connections to other nodes. CollNet: from all local ranks.
Bytes AlgorithmBytes(const Communicator& communicator, Algorithm algorithm);

// Shared by all sends and receives: 16 chunks for each channel.
Bytes PointToPointPoolBytes(int point_to_point_channels, Bytes chunk);

}  // namespace stepcast::nccl
