#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/program/program.h"
#include "src/program/timeline.h"

// Which receive of one rank's timeline takes what a send of another's gives.
namespace stepcast::report {

struct RankTimeline {
  const program::Program* program = nullptr;
  const program::Timeline* timeline = nullptr;
};

// Of operation records: places in Timeline::operations.
struct MessageArrow {
  std::size_t from_rank = 0, to_rank = 0;  // places in the list of ranks
  program::Index send = program::kNone, receive = program::kNone;
  friend bool operator==(const MessageArrow&, const MessageArrow&) = default;
};

// The k-th send of a step from one rank to another over a group goes to the k-th receive of that
// step (as program/matching.h proves of programs that go together). Messages whose other end is in
// no timeline of the list have no arrow. In the order of receivers and of their records.
std::vector<MessageArrow> MessageArrows(std::span<const RankTimeline> ranks);

}  // namespace stepcast::report
