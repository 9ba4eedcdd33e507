#pragma once

#include <cstdint>

namespace stepcast::collective {

// No rank to receive from or to send to.
inline constexpr std::int32_t kNobody = -1;

// Part `part` of `count` blocks: block, block + stride, block + 2 stride, ..., modulo the number of
// blocks (partition.h).
struct Chunk {
  std::int32_t block = 0;
  std::int32_t stride = 0;
  std::int32_t count = 1;
  std::int32_t part = 0;
};

// What one worker does at once: NCCL's primitives (src/device/prims_simple.h of NVIDIA/nccl: send,
// recvReduceSend, recvReduceCopySend, recvCopySend, recv). Everything happens in one buffer that at
// first holds the participant's own contribution, in a switch zeros:
//   1. wait for the next message from `receive_from`; it is added to the chunk where `reduce` is
//      set, and else takes its place;
//   2. where `copy` is set the chunk is now final and part of the collective's result;
//   3. send the chunk to `send_to`.
// Messages from one worker to another arrive in the order in which they were sent. A step without
// peers copies the rank's own contribution.
struct Step {
  std::int32_t receive_from = kNobody;  // worker
  std::int32_t send_to = kNobody;       // worker
  bool reduce = false;
  bool copy = false;
  Chunk chunk;
  std::int64_t bytes = 0;  // of the chunk
};

}  // namespace stepcast::collective
