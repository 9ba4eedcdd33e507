#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/program/program.h"
#include "src/program/timeline.h"

// Pairs the sends of one rank's timeline with the receives of another's.
namespace stepcast::report {

struct RankTimeline {
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
};

// From a send to its receive, as indices of Timeline::operations.
struct MessageArrow {
  std::size_t from_rank = 0, to_rank = 0;  // indices in the list of ranks
  program::Index send = program::kNone, receive = program::kNone;
  friend bool operator==(const MessageArrow&, const MessageArrow&) = default;
};

// The k-th send of a step from one rank to another over a group matches the k-th receive of that
// step (program/matching.h proves this for matching programs). Messages whose other end is in no
// timeline have no arrow. Arrows are ordered by receiver and by its records.
std::vector<MessageArrow> MessageArrows(std::span<const RankTimeline> ranks);

}  // namespace stepcast::report
