#pragma once

#include "src/base/bytes.h"
#include "src/nccl/communicator.h"
#include "src/nccl/terms.h"

// What NCCL allocates on a GPU. Connections of an algorithm are made when it is first used
// (NVIDIA/nccl, src/transport/p2p.cc, nvls.cc and net.cc, src/init.cc).
namespace stepcast::nccl {

// In what portions data move (NVIDIA/nccl, src/init.cc, src/include/device.h and collectives.h,
// src/enqueue.cc). A connection is a buffer of eight steps that sender and receiver pass round;
// what a kernel works on at once is a chunk; Simple rings hand a chunk on in slices.

inline constexpr int kBufferSteps = 8;

// The buffer of one connection.
constexpr Bytes BufferBytes(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return KiB(512);  // half of each 16 B are flags
    case Protocol::kLl128:
      return Bytes(4'915'200);  // 8 of each 128 B are flags
    case Protocol::kSimple:
      return MiB(4);
  }
  return {};
}

// Chunks are whole multiples of this.
constexpr Bytes Grain(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return Bytes(16);
    case Protocol::kLl128:
      return Bytes(1920);
    case Protocol::kSimple:
      return Bytes(512);
  }
  return {};
}

struct Chunking {
  Bytes chunk;             // of data, without flags
  Bytes slice;             // handed on as a whole; the chunk itself but for Simple rings
  Bytes loop;              // all channels and, for rings, all ranks' chunks, for NVLS all heads'
  int steps_of_chunk = 1;  // of the connection's buffer

  friend bool operator==(const Chunking&, const Chunking&) = default;
};

// Of a collective of `bytes` (as in communicator_model.h) that runs on `channels`.
Chunking ChunkingOf(const Communicator& communicator, Function function, Algorithm algorithm,
                    Protocol protocol, int channels, Bytes bytes);

// The chunk of a ring all-reduce's last loop, when `left` bytes remain for a channel: these are
// dealt out among the ranks, in multiples of the grain.
Bytes LastRingChunk(const Chunking& chunking, Protocol protocol, int ranks, Bytes left);

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
