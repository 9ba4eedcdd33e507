#pragma once

#include <cstdint>
#include <vector>

#include "src/collective/step_list.h"

namespace stepcast::collective {

// A message of a step list, with its round.
struct SentChunk {
  int round = 0;
  int from = 0, to = 0;  // numbers of participants
  Chunk chunk;
  bool reduce = false;  // whether the receiver adds the chunk to its own data
};

// Returns the messages of channel 0 in its first loop, if every message takes one round and a
// worker sends one message per round. Sorted by round, then by sender. Other channels and loops
// send the same pattern.
std::vector<SentChunk> MessagesByRound(const StepList& list);

}  // namespace stepcast::collective
