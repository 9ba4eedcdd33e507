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
// (CheckSchedule states the rules). Entries that the schedule lacks are omitted. The schedule must
// outlive this object.
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

// Returns all entries in an order that respects dependencies and the order within each stage. If
// there is a cycle, returns only the entries that can run.
std::vector<EntryAt> RunOrder(const PipelineSchedule& schedule,
                              const ScheduleDependencies& dependencies);

// A mistake in a schedule, with its position.
struct ScheduleMistake {
  int stage = 0;
  int entry = -1;  // index in the stage's entries; -1: the whole stage
  std::string sentence;
};

// Returns all mistakes, or the first 20. Empty if the schedule can run:
//   * Every chunk of the model is on a stage, and stages run passes only of their own chunks.
//   * Every micro-batch goes through every chunk once: one forward, and either one whole backward
//     or one for inputs and one for weights, all on one stage.
//   * Dependencies and the orders of stages have no cycle. A forward depends on the previous
//     chunk's forward. A backward depends on the next chunk's backward and on its own forward.
//     Weight gradients depend on input gradients.
// Cycles are checked only if there is no other mistake. Time and memory depend only on the lengths
// of the lists, not on the numbers in them.
std::vector<ScheduleMistake> CheckSchedule(const PipelineSchedule& schedule);

// Returns a pass that needs messages in another order than that in which they are sent, because
// messages between two stages arrive in order. None if there is no such pass. The schedule must
// have no mistakes, and each chunk must be on one stage.
std::optional<ScheduleMistake> MessageOutOfOrder(const PipelineSchedule& schedule);

// Returns, for each stage, the largest number of passes in flight. A micro-batch's pass through a
// chunk is in flight from the start of its forward to the end of its backward. If backward is
// split, it is in flight to the end of the weight part. The schedule must have no mistakes.
std::vector<int> MostInFlight(const PipelineSchedule& schedule);

// The micro-batches that wait when a stage begins the backward of a micro-batch through `chunk`.
// The stage has run their forward but has not begun their backward.
struct WaitingPasses {
  int chunk = 0;
  // The number of waiting micro-batches, indexed by the model's chunks. The micro-batch whose
  // backward begins does not count.
  std::vector<int> forwards;
  friend bool operator==(const WaitingPasses&, const WaitingPasses&) = default;
};
// Returns, for each stage, the micro-batches that wait when their number is largest for the first
// time. The schedule must have no mistakes.
std::vector<WaitingPasses> MostWaiting(const PipelineSchedule& schedule);

// The times of a schedule's passes if communication is free. Drawings use them, and so do the
// closed forms of papers (which assume equal stages) and bounds on other schedules.

// The durations of the passes through one chunk, in slots.
struct PassDurations {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::optional<std::int64_t> backward{};  // whole backward; default: the sum of both parts
  // The duration of an overlapping pair, in slots. The default is the sum of both passes.
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

// Computes the times of all entries. Each stage runs its list in order, and each entry starts when
// its dependencies are done. The schedule must have no mistakes (CheckSchedule).
ScheduleTiming Time(const PipelineSchedule& schedule, const PassDurations& durations);

// Computes the times with separate durations for each chunk. The passes of a pair run sequentially.
ScheduleTiming Time(const PipelineSchedule& schedule, std::span<const PassDurations> chunks);

}  // namespace stepcast::parallel
