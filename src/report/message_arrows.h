#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/program/program.h"
#include "src/program/timeline.h"

// Pairs the sends in one rank's timeline with the receives in another rank's timeline.
namespace stepcast::report {

struct RankTimeline {
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
};

// An arrow from a send to its receive. `send` and `receive` are indices of Timeline::operations.
struct MessageArrow {
  std::size_t from_rank = 0, to_rank = 0;  // indices in the list of ranks
  program::Index send = program::kNone, receive = program::kNone;
  friend bool operator==(const MessageArrow&, const MessageArrow&) = default;
};

// Returns the arrows between the timelines in `ranks`. The k-th send of a step from one rank to
// another over a group matches the k-th receive of that step (tests/proofs/matching.h). Messages to
// or from ranks that are not in `ranks` have no arrows. Arrows are ordered by receiving rank, then
// by operation.
std::vector<MessageArrow> MessageArrows(std::span<const RankTimeline> ranks);

}  // namespace stepcast::report
