#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/collective/partition.h"
#include "src/collective/step.h"

namespace stepcast::collective {

// A collective, step by step: which rank sends which chunk to which, in which order.
//
// Participants are the ranks of the group, 0 to ranks() - 1 in group order, and after them the
// switches that reduce or multicast. Each participant has the same number of workers: one for each
// channel and lane. A lane is one order of steps; lanes of a participant run at the same time, as
// NCCL splits a thread block into a half that reduces up a tree and a half that broadcasts down.
//
// The steps of a worker come in loops, all alike: step j of loop l does to another part of the
// buffer what step j of loop 0 does. The data that travels at once is thereby bounded, and loops
// follow each other through the algorithm like through a pipeline.
//
// Steps are computed, not stored: a ring over 4,096 ranks has 33.5 million sends and takes no
// memory for them.
class StepList {
 public:
  virtual ~StepList() = default;

  std::string_view algorithm() const { return algorithm_; }  // "ring", "tree", ...
  CollectiveKind kind() const { return kind_; }
  Bytes size() const { return size_; }  // as nccl-tests counts it for this kind
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
  // Requires 0 <= i < StepCount(worker).
  virtual Step At(int worker, std::int64_t i) const = 0;

  // Whether a loop can start before the one before it has ended: no worker waits, by way of others,
  // for its own later steps.
  virtual bool LoopsOverlap() const = 0;
  // Algorithms with stages that follow each other use different connections in each. Connections of
  // one stage are used at the same time and share the links that they have in common.
  virtual int StageOf(int from_worker, int to_worker) const {
    (void)from_worker, (void)to_worker;
    return 0;
  }

  // "all_reduce of 65536 B by ring over 8 ranks".
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
    int slices = 1;           // parts of a block that a loop moves one by one
    std::int64_t blocks = 1;  // of the data of all ranks together
    Bytes total;              // its size
  };
  // Every limit that the worker and chunk numbers have is checked here.
  explicit StepList(const Shape& shape);

  std::int64_t BytesOf(const Chunk& chunk) const;
  // `step` with the bytes of its chunk.
  Step Sized(Step step) const {
    step.bytes = BytesOf(step.chunk);
    return step;
  }
  // The part of every block that a channel's loop moves.
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

// How many loops keep what a block's part carries in one message within `most`: enough for every
// channel's share of a block of `block` bytes. At least one.
int LoopsFor(Bytes block, int channels, Bytes most);

}  // namespace stepcast::collective
