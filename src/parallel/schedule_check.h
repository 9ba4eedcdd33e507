#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {

// What has to run before what.

// An entry of a schedule.
struct EntryAt {
  int stage = 0;
  int entry = 0;
  friend bool operator==(const EntryAt&, const EntryAt&) = default;
};

// Which entries an entry needs, beside those before it on its stage (schedule_check.h has the
// rules). Entries that it would need and that are missing are left out.
class ScheduleDependencies {
 public:
  explicit ScheduleDependencies(const PipelineSchedule& schedule);

  std::vector<EntryAt> Of(EntryAt at) const;

 private:
  struct Passes {  // of a micro-batch at a chunk; entry -1: none
    EntryAt forward{0, -1};
    EntryAt backward{0, -1};  // whole, or of inputs
  };
  const Passes& At(int chunk, int micro_batch) const;
  void Add(const Action& action, std::vector<EntryAt>& needed) const;

  const PipelineSchedule* schedule_;
  int chunks_;
  std::vector<Passes> passes_;  // [chunk * micro-batches + micro-batch]
};

// All entries in an order in which each comes after what it needs and after the one before it on
// its stage. With a cycle: those that can run, fewer than all.
std::vector<EntryAt> RunOrder(const PipelineSchedule& schedule,
                              const ScheduleDependencies& dependencies);

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

// When a schedule's passes run if communication is free: the drawings and closed forms of papers,
// whose stages are equal, and bounds of others.

// In slots, of one chunk.
struct PassDurations {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::optional<std::int64_t> backward{};  // whole; default: both parts
  // Of a pair that overlaps; default: its two passes one after the other.
  std::optional<std::int64_t> pair{};

  std::int64_t Of(const Action& action) const;
  std::int64_t Of(const ScheduleEntry& entry) const;  // 0 for passes of parameters
  friend bool operator==(const PassDurations&, const PassDurations&) = default;
};

struct ScheduleTiming {
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<std::vector<Span>> spans;  // [stage][entry]
  std::int64_t slots = 0;                // from the first begin to the last end
  std::vector<std::int64_t> idle;        // [stage] slots in which it computes nothing: its bubble
};

// Each stage runs its list in order, each entry as soon as what it needs is done. Of a schedule
// without mistakes (schedule_check.h).
ScheduleTiming Time(const PipelineSchedule& schedule, const PassDurations& durations);

// The same where chunks differ: [chunk]. Passes of a pair run one after the other.
ScheduleTiming Time(const PipelineSchedule& schedule, std::span<const PassDurations> chunks);

}  // namespace stepcast::parallel
