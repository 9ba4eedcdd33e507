#pragma once

#include <cstddef>
#include <vector>

#include "src/lowering/program_builder.h"

namespace stepcast::lowering {

// FSDP1's limit_all_gathers (torch/distributed/fsdp/_limiter_utils.py): each time a unit's gathered
// parameters are freed, an event is recorded on the compute stream and put into a queue; before a
// unit is unsharded, and while `limit` events or more are in the queue, the host takes the oldest
// one and waits for it. The queue lives on from step to step.
//
// One step is written, to be issued again and again; what it finds in the queue is what it leaves
// there once that has become the same. Only Finish() knows, so what Gather() and Freed() write is
// completed there.
class RateLimiter {
 public:
  explicit RateLimiter(ProgramBuilder& builder, StreamId compute, std::size_t limit = 2);

  // A unit is about to be unsharded, even if it turns out that nothing must be gathered.
  void Gather();
  // A unit's gathered parameters have been freed.
  void Freed();
  // All of the step has been written.
  void Finish();

 private:
  struct Point {
    bool frees = false;
    std::size_t instruction = 0;
  };

  ProgramBuilder& builder_;
  const StreamId compute_;
  const std::size_t limit_;
  const Index none_;           // event that is never recorded
  std::vector<Point> points_;  // of the step, in host order
};

}  // namespace stepcast::lowering
