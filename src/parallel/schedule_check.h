#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {

// A mistake of a schedule, and where it shows.
struct ScheduleMistake {
  int stage = 0;
  int entry = -1;  // index into the stage's entries; -1: of the whole stage
  std::string sentence;
};

// All mistakes, or the first 20; empty when the schedule can run:
// - every chunk of the model is held by a stage, and stages run passes of chunks that they hold;
// - every micro-batch goes through every chunk once: one forward, and either one whole backward or
//   one for inputs and one for weights, all on one stage;
// - dependencies and the stages' orders together have no cycle. A forward needs the forward of the
//   chunk before it, a backward that of the chunk behind it and its own forward, gradients of
//   weights those of inputs.
// Cycles are looked for only when there is no other mistake. Takes time and memory for what the
// lists hold, however large the numbers in them are.
std::vector<ScheduleMistake> CheckSchedule(const PipelineSchedule& schedule);

// Messages between two stages arrive in the order in which they are sent: what a stage takes from
// another one out of that order, if there is such a pass. Of a schedule without mistakes, each
// chunk of which is on one stage.
std::optional<ScheduleMistake> MessageOutOfOrder(const PipelineSchedule& schedule);

// [stage] the most micro-batches of a chunk, summed over its chunks, whose forward has begun and
// whose backward has not ended (with weights apart: whose weights' part has not). Of a schedule
// without mistakes.
std::vector<int> MostInFlight(const PipelineSchedule& schedule);

// The micro-batches whose forward a stage has run and whose backward it has not begun, at the time
// when it begins the backward of one micro-batch through `chunk`.
struct WaitingPasses {
  int chunk = 0;
  // How many they are, by chunk of the model; the micro-batch whose backward begins is not counted.
  std::vector<int> forwards;
  friend bool operator==(const WaitingPasses&, const WaitingPasses&) = default;
};
// Gives, for each stage, the time at which most of them wait, and the first of several such times.
// The schedule must be without mistakes.
std::vector<WaitingPasses> MostWaiting(const PipelineSchedule& schedule);

}  // namespace stepcast::parallel
