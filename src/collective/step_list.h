#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"

namespace stepcast::collective {

// How a collective's data are divided. A block is the data that one rank contributes or receives,
// or (with switches) one head's data. Each block is divided into parts; a part is sent as one
// message. Block sizes differ by at most one byte, and so do the sizes of the parts of a block.
// Longer blocks and parts are first.
//
// An element has the same address on every rank, so a block is the same range of bytes on every
// rank. For an all-to-all, block i * N + j contains the data from rank i to rank j.
class Partition {
 public:
  Partition() = default;
  // Creates a partition. Requires total >= 0, blocks > 0 and parts > 0.
  Partition(Bytes total, std::int64_t blocks, std::int64_t parts)
      : total_(total), blocks_(blocks), parts_(parts) {
    STEPCAST_CHECK(total.count() >= 0 && blocks > 0 && parts > 0,
                   "a partition needs a size of "
                   "zero or more, and at least one "
                   "block and one part");
    block_ = total.count() / blocks;
    longer_blocks_ = total.count() % blocks;
    for (std::int64_t longer = 0; longer < 2; ++longer) {
      part_[longer] = (block_ + longer) / parts;
      longer_parts_[longer] = (block_ + longer) % parts;
    }
  }

  Bytes total() const { return total_; }
  std::int64_t blocks() const { return blocks_; }
  std::int64_t parts() const { return parts_; }

  // Returns the number of bytes in part `part` of block `block`.
  std::int64_t Size(std::int64_t block, std::int64_t part) const {
    const int longer = block < longer_blocks_ ? 1 : 0;
    return part_[longer] + (part < longer_parts_[longer] ? 1 : 0);
  }
  // Returns the offset in bytes of part `part` of block `block`.
  std::int64_t Offset(std::int64_t block, std::int64_t part) const {
    const int longer = block < longer_blocks_ ? 1 : 0;
    const std::int64_t before = block < longer_blocks_ ? block : longer_blocks_;
    const std::int64_t parts_before = part < longer_parts_[longer] ? part : longer_parts_[longer];
    return block * block_ + before + part * part_[longer] + parts_before;
  }

 private:
  Bytes total_;
  std::int64_t blocks_ = 1;
  std::int64_t parts_ = 1;
  std::int64_t block_ = 0;
  std::int64_t longer_blocks_ = 0;
  std::int64_t part_[2] = {0, 0};  // part_[0] is for short blocks, part_[1] for long blocks
  std::int64_t longer_parts_[2] = {0, 0};
};

// A missing peer: no rank or worker to receive from or to send to.
inline constexpr std::int32_t kNobody = -1;

// Part `part` of `count` blocks: block, block + stride, block + 2 x stride, ..., modulo the number
// of blocks.
struct Chunk {
  std::int32_t block = 0;
  std::int32_t stride = 0;
  std::int32_t count = 1;
  std::int32_t part = 0;
};

// One step of a worker, like a primitive of NCCL (src/device/prims_simple.h of NVIDIA/nccl: send,
// recvReduceSend, recvReduceCopySend, recvCopySend, recv). A participant has one buffer, which
// initially contains its own contribution, or zeros for a switch.
//   1. The worker waits for the next message from `receive_from`. The message is added to the chunk
//      if `reduce` is set, otherwise it replaces the chunk.
//   2. If `copy` is set, the chunk is now final and part of the collective's result.
//   3. The worker sends the chunk to `send_to`.
// Messages between two workers arrive in the order of sending. A step without peers copies the
// rank's own contribution.
struct Step {
  std::int32_t receive_from = kNobody;  // number of a worker
  std::int32_t send_to = kNobody;       // number of a worker
  bool reduce = false;
  bool copy = false;
  Chunk chunk;
  std::int64_t bytes = 0;  // size of the chunk
};

// The steps of a collective: which rank sends which chunk to which rank, and in which order.
//
// Participants 0 to ranks() - 1 are the ranks in group order. The following participants are the
// switches that reduce or multicast. Each participant has one worker for each channel and lane. A
// lane is a sequence of steps, and the lanes of a participant run at the same time. (In NCCL, lanes
// are parts of a thread block: one part reduces up a tree, and the other part broadcasts down.)
//
// A worker repeats its steps in `loops` loops. Each loop sends another part of the buffer. Loops
// limit the data in flight and form a pipeline.
//
// Steps are computed on demand, because a ring over 4,096 ranks has 33.5 million sends.
class StepList {
 public:
  virtual ~StepList() = default;

  std::string_view algorithm() const { return algorithm_; }  // "ring", "tree", ...
  CollectiveKind kind() const { return kind_; }
  Bytes size() const { return size_; }  // defined as in nccl-tests for this kind
  int ranks() const { return ranks_; }
  int switches() const { return switches_; }
  int participants() const { return ranks_ + switches_; }
  int channels() const { return channels_; }
  int lanes() const { return lanes_; }
  int loops() const { return loops_; }
  const Partition& partition() const { return partition_; }

  int workers() const { return channels_ * participants() * lanes_; }
  int WorkerOf(int channel, int participant, int lane) const {
    return (channel * participants() + participant) * lanes_ + lane;
  }
  int ParticipantOf(int worker) const { return worker / lanes_ % participants(); }
  int ChannelOf(int worker) const { return worker / lanes_ / participants(); }
  int LaneOf(int worker) const { return worker % lanes_; }

  virtual std::int64_t StepsPerLoop(int worker) const = 0;
  std::int64_t StepCount(int worker) const { return loops_ * StepsPerLoop(worker); }
  // Returns a step of a worker. Requires 0 <= i < StepCount(worker).
  virtual Step At(int worker, std::int64_t i) const = 0;

  // Returns whether a loop can start before the previous loop has ended. True if no worker waits,
  // directly or indirectly, for its own later steps.
  virtual bool LoopsOverlap() const = 0;
  // Returns the stage of a connection. Connections of one stage are used at the same time and share
  // links. Sequential stages of an algorithm use different connections.
  virtual int StageOf(int from_worker, int to_worker) const {
    (void)from_worker, (void)to_worker;
    return 0;
  }

  // Returns a description of the list, such as "all_reduce of 65536 B by ring over 8 ranks".
  std::string Describe() const;

 protected:
  struct Shape {
    std::string_view algorithm;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    Bytes size;
    int ranks = 1;
    int switches = 0;
    int channels = 1;
    int lanes = 1;
    int loops = 1;
    int slices = 1;           // parts of a block, which a loop sends one by one
    std::int64_t blocks = 1;  // number of blocks in the data of all ranks
    Bytes total;              // size of the data of all ranks
  };
  // Checks that the numbers of workers and chunks fit into their types.
  explicit StepList(const Shape& shape);

  std::int64_t BytesOf(const Chunk& chunk) const;
  // Returns a copy of `step` with `bytes` set to the size of the step's chunk.
  Step Sized(Step step) const {
    step.bytes = BytesOf(step.chunk);
    return step;
  }
  // Returns the part of every block that a channel sends in a loop.
  std::int32_t PartOf(int channel, std::int64_t loop) const {
    return static_cast<std::int32_t>(channel * static_cast<std::int64_t>(loops_) + loop);
  }

 private:
  std::string_view algorithm_;
  CollectiveKind kind_;
  Bytes size_;
  int ranks_;
  int switches_;
  int channels_;
  int lanes_;
  int loops_;
  Partition partition_;
};

// Returns the smallest number of loops, at least one, for which no message has more than `most`
// bytes of a block. The channels divide each block of `block` bytes.
int LoopsFor(Bytes block, int channels, Bytes most);

}  // namespace stepcast::collective
