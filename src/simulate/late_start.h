#pragma once

#include <cstdint>
#include <vector>

#include "src/base/time.h"

// The first of several steps begun late: its first part is taken for over, the rest is run. Where
// the rest leaves everything as a whole step does (Repetition), which is looked at, nothing shows
// that the first step was no whole one.
//
// What is over is closed: with an item of a stream all before it on the stream; with a wait the
// record that it waits for; with a collective or a message its other ends, and those before it on
// its communicator. At first these are, of each class, all items of the earlier part of its
// instructions; but of streams that exchange messages only what the others need, for what has
// been issued early there waits until peers come to it.
namespace stepcast::simulate {

// Where a class begins its step.
struct StepPosition {
  std::vector<std::uint32_t> items;        // by stream: the first that is not over
  std::vector<std::uint32_t> collectives;  // by communicator: so many of the step are over
  std::vector<std::uint32_t> messages;     // by endpoint: likewise
  // The host issues the first instruction that is not over, in this span of the step, so long after
  // the span's begin.
  std::uint32_t span = 0;
  Time issued;
};

}  // namespace stepcast::simulate
