#include "src/lowering/rate_limiter.h"

#include <cstdint>
#include <deque>
#include <string>

namespace stepcast::lowering {

RateLimiter::RateLimiter(ProgramBuilder& builder, StreamId compute, std::size_t limit)
    : builder_(builder),
      compute_(compute),
      limit_(limit),
      none_(builder.AddEvent("nothing to wait for")) {}

void RateLimiter::Gather() {
  points_.push_back({.frees = false, .instruction = builder_.HostWait(none_)});
}

void RateLimiter::Freed() {
  points_.push_back({.frees = true, .instruction = builder_.Record(compute_, none_)});
}

void RateLimiter::Finish() {
  std::int64_t frees = 0;
  for (const Point& point : points_) frees += point.frees ? 1 : 0;
  // Entries of the queue number the frees of this step from 0; frees of earlier steps are negative.
  // There are at least as many gathers as frees, so the queue does not grow without bound.
  std::deque<std::int64_t> queue;
  std::size_t length = 0;
  std::vector<std::int64_t> waited_for;  // by gather; `frees`: for nothing
  do {
    length = queue.size();
    for (std::int64_t& entry : queue) entry -= frees;
    waited_for.clear();
    std::int64_t next = 0;
    for (const Point& point : points_) {
      if (point.frees) {
        queue.push_back(next++);
      } else if (queue.size() < limit_) {
        waited_for.push_back(frees);
      } else {
        waited_for.push_back(queue.front());
        queue.pop_front();
      }
    }
  } while (queue.size() != length);

  std::vector<Index> events;  // by free
  for (std::int64_t i = 0; i < frees; ++i) {
    events.push_back(builder_.AddEvent("parameters freed " + std::to_string(i)));
  }
  std::size_t gather = 0, free = 0;
  for (const Point& point : points_) {
    if (point.frees) {
      builder_.SetOperand(point.instruction, events[free++]);
      continue;
    }
    const std::int64_t entry = waited_for[gather++];
    // Frees before the last step are computed long ago.
    if (entry == frees || entry < -frees) continue;
    builder_.SetOperand(point.instruction, events[entry < 0 ? entry + frees : entry]);
  }
}

}  // namespace stepcast::lowering
