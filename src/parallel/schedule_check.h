#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/parallel/pipeline_schedule.h"

namespace stepcast::parallel {

// The dependencies between the passes of a schedule.

// The position of an entry in a schedule.
struct EntryAt {
  int stage = 0;
  int entry = 0;
  friend bool operator==(const EntryAt&, const EntryAt&) = default;
};

// The entries on which an entry depends, in addition to the earlier entries of its stage
// (CheckSchedule states the rules). Entries that are missing in the schedule are omitted. The
// schedule must outlive this object.
class ScheduleDependencies {
 public:
  explicit ScheduleDependencies(const PipelineSchedule& schedule);

  std::vector<EntryAt> Of(EntryAt at) const;

 private:
  struct Passes {  // passes of a micro-batch through a chunk; entry -1: none
    EntryAt forward{0, -1};
    EntryAt backward{0, -1};  // whole, or for inputs
  };
  const Passes& At(int chunk, int micro_batch) const;
  void Add(const Action& action, std::vector<EntryAt>& needed) const;

  const PipelineSchedule* schedule_;
  int chunks_;
  std::vector<Passes> passes_;  // [chunk * micro-batches + micro-batch]
};

// Returns all entries in an order that respects dependencies and the order of each stage. If there
// is a cycle, the result has only the entries that can run.
std::vector<EntryAt> RunOrder(const PipelineSchedule& schedule,
                              const ScheduleDependencies& dependencies);

// A mistake in a schedule, with its position.
struct ScheduleMistake {
  int stage = 0;
  int entry = -1;  // index in the stage's entries; -1: the whole stage
  std::string sentence;
};

// Returns all mistakes, or the first 20. Empty if the schedule can run:
//  * every chunk of the model is on a stage, and stages run passes only of their own chunks;
//  * every micro-batch goes through every chunk once: one forward, and either one whole backward or
//    one for inputs and one for weights, all on one stage;
//  * dependencies and the stages' orders have no cycle. A forward depends on the previous chunk's
//    forward, a backward on the next chunk's and on its own forward, weight gradients on input
//    gradients.
//
// Cycles are checked only if there is no other mistake. Time and memory depend only on the lengths
// of the lists, not on the numbers in them.
std::vector<ScheduleMistake> CheckSchedule(const PipelineSchedule& schedule);

// Messages between two stages arrive in the order in which they are sent. If a pass needs messages
// in another order, returns that pass. The schedule must have no mistakes, and each chunk must be
// on one stage.
std::optional<ScheduleMistake> MessageOutOfOrder(const PipelineSchedule& schedule);

// Returns, indexed by [stage], the maximum number of passes in flight. A micro-batch's pass through
// a chunk is in flight from the start of its forward to the end of its backward (or of the weight
// part, if backward is split). The schedule must have no mistakes.
std::vector<int> MostInFlight(const PipelineSchedule& schedule);

// The waiting micro-batches at the time when a stage begins the backward of a micro-batch through
// `chunk`: the stage has run their forward but has not begun their backward.
struct WaitingPasses {
  int chunk = 0;
  // The number of waiting micro-batches, indexed by chunk of the model. The micro-batch whose
  // backward begins is not counted.
  std::vector<int> forwards;
  friend bool operator==(const WaitingPasses&, const WaitingPasses&) = default;
};
// Returns, for each stage, the first time at which the number of waiting micro-batches is largest.
// The schedule must have no mistakes.
std::vector<WaitingPasses> MostWaiting(const PipelineSchedule& schedule);

// The times of a schedule's passes if communication is free. They are used for drawings, for the
// closed forms of papers (which assume equal stages), and for bounds on other schedules.

// The durations of the passes through one chunk, in slots.
struct PassDurations {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::optional<std::int64_t> backward{};  // whole backward; default: the sum of both parts
  // The duration of an overlapping pair; the default is the sum of both passes.
  std::optional<std::int64_t> pair{};

  std::int64_t Of(const Action& action) const;
  std::int64_t Of(const ScheduleEntry& entry) const;  // 0 for operations on parameters
  friend bool operator==(const PassDurations&, const PassDurations&) = default;
};

struct ScheduleTiming {
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<std::vector<Span>> spans;  // [stage][entry]
  std::int64_t slots = 0;                // from the first start to the last end
  std::vector<std::int64_t> idle;        // [stage]: slots without computation (its bubble)
};

// Computes the times. Each stage runs its list in order, and each entry starts when its
// dependencies are done. The schedule must have no mistakes (CheckSchedule).
ScheduleTiming Time(const PipelineSchedule& schedule, const PassDurations& durations);

// Does the same with durations per chunk. The passes of a pair run sequentially.
ScheduleTiming Time(const PipelineSchedule& schedule, std::span<const PassDurations> chunks);

}  // namespace stepcast::parallel
