#pragma once

#include <cstddef>
#include <vector>

#include "src/lowering/program_builder.h"

namespace stepcast::lowering {

// FSDP1's limit_all_gathers (torch/distributed/fsdp/_limiter_utils.py). When a unit's gathered
// parameters are freed, an event is recorded on the compute stream and queued. Before a unit is
// unsharded, the host removes and waits for the oldest event while the queue has `limit` events or
// more. The queue persists between steps.
//
// The step is written once and issued repeatedly. In the steady state, the queue has the same
// content at the start and at the end of the step. The queue's content is known only in Finish(),
// which therefore completes the instructions of Gather() and Freed().
class RateLimiter {
 public:
  explicit RateLimiter(ProgramBuilder& builder, StreamId compute, std::size_t limit = 2);

  // Makes the host wait if the limit is reached. Call this function before a unit is unsharded,
  // even if no gather is needed.
  void Gather();
  // Records that memory was freed. Call this function after a unit's gathered parameters are freed.
  void Freed();
  // Completes the instructions. Call this function after the complete step is written.
  void Finish();

 private:
  struct Point {
    bool frees = false;
    std::size_t instruction = 0;
  };

  ProgramBuilder& builder_;
  const StreamId compute_;
  const std::size_t limit_;
  const Index none_;           // an event that is never recorded
  std::vector<Point> points_;  // frees and waits of the step, in host order
};

}  // namespace stepcast::lowering
