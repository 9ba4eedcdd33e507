#pragma once

#include <cstdint>
#include <vector>

#include "src/collective/step_list.h"

namespace stepcast::collective {

// A ring: each rank sends to the next rank. Channels have different orders of ranks. With n ranks,
// a loop has these steps (src/device/all_reduce.h of NVIDIA/nccl):
//
//   all-reduce: 1 send, n - 2 receive-reduce-send, 1 receive-reduce-copy-send, n - 2
//     receive-copy-send, 1 receive.
//   reduce-scatter: 1 send, n - 2 receive-reduce-send, 1 receive-reduce-copy.
//   all-gather: 1 send, n - 2 receive-copy-send, 1 receive.
//
// In step s, the rank at position p has the block of position p - 1 - s (all-gather: p - s). A
// chunk is sent as `slices` messages, so that a rank can forward the first slices before the last
// slices arrive.
class Ring final : public StepList {
 public:
  struct Options {
    CollectiveKind kind = CollectiveKind::kAllReduce;  // all-reduce, reduce-scatter or all-gather
    Bytes size;
    std::vector<std::vector<int>> orders;  // rank, indexed by channel and position
    int loops = 1;
    int slices = 1;
  };
  explicit Ring(const Options& options);

  int slices() const { return static_cast<int>(slices_); }
  std::int64_t sends_per_chunk() const { return steps_ - 1; }
  // Returns the worker to which `worker` sends.
  int NextOf(int worker) const { return seats_[static_cast<std::size_t>(worker)].next; }

  std::int64_t StepsPerLoop(int) const override { return steps_ * slices_; }
  bool LoopsOverlap() const override { return false; }

  Step At(int worker, std::int64_t i) const override {
    const Seat& seat = seats_[static_cast<std::size_t>(worker)];
    const auto index = static_cast<std::uint32_t>(i);
    const std::uint32_t loop = loops() == 1 ? 0 : index / (steps_ * slices_);
    const std::uint32_t in_loop = index - loop * (steps_ * slices_);
    const std::uint32_t step = slices_ == 1 ? in_loop : in_loop / slices_;
    const std::uint32_t slice = in_loop - step * slices_;
    const std::uint32_t n = ring_;
    std::uint32_t position = seat.position + first_ + 2 * n - step;  // first_: 0 or n - 1
    while (position >= n) position -= n;
    Step result;
    result.receive_from = step == 0 ? kNobody : seat.previous;
    result.send_to = step + 1 == steps_ ? kNobody : seat.next;
    result.reduce = step > 0 && step <= last_reduce_;
    result.copy = step >= first_copy_;
    result.chunk.block = orders_[static_cast<std::size_t>(seat.ring_begin + position)];
    result.chunk.part = static_cast<std::int32_t>((seat.first_part + loop) * slices_ + slice);
    result.bytes = partition().Size(result.chunk.block, result.chunk.part);
    return result;
  }

 private:
  struct Seat {
    std::uint32_t position = 0;
    std::uint32_t ring_begin = 0;  // start of the channel's order in orders_
    std::uint32_t first_part = 0;  // index of the channel's first part
    std::int32_t next = 0;         // next worker
    std::int32_t previous = 0;
  };

  std::uint32_t ring_;
  std::uint32_t slices_;
  std::uint32_t steps_;        // steps per chunk: one more than the number of sends
  std::uint32_t first_;        // added to the position: 0, or n - 1 (-1 modulo n)
  std::uint32_t last_reduce_;  // last step that adds received data
  std::uint32_t first_copy_;   // first step after which the chunk is final
  std::vector<Seat> seats_;    // indexed by worker
  std::vector<std::int32_t> orders_;
};

// A broadcast or reduction over a chain: a ring that is cut at the root. A broadcast starts at the
// root, and a reduction ends at the root. Loops follow one another through the chain.
class Chain final : public StepList {
 public:
  struct Options {
    CollectiveKind kind = CollectiveKind::kBroadcast;  // broadcast or reduce
    Bytes size;
    std::vector<std::vector<int>> orders;  // rank, indexed by channel and position
    int root = 0;
    int loops = 1;
  };
  explicit Chain(const Options& options);

  std::int64_t StepsPerLoop(int) const override { return 1; }
  bool LoopsOverlap() const override { return true; }
  Step At(int worker, std::int64_t i) const override;

 private:
  std::vector<std::int32_t> next_;  // next worker or kNobody, indexed by worker
  std::vector<std::int32_t> previous_;
};

}  // namespace stepcast::collective
