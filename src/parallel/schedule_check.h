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

// The entries on which an entry depends, in addition to the earlier entries of its stage.
// CheckSchedule defines the rules. Entries that the schedule does not contain are omitted. The
// schedule must outlive this object.
class ScheduleDependencies {
 public:
  explicit ScheduleDependencies(const PipelineSchedule& schedule);

  std::vector<EntryAt> Of(EntryAt at) const;

 private:
  struct Passes {  // passes of a micro-batch through a chunk; entry -1: no such pass
    EntryAt forward{0, -1};
    EntryAt backward{0, -1};  // a complete backward, or only input gradients
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
  int entry = -1;  // index in the stage's entries; -1: the mistake concerns the stage
  std::string sentence;
};

// Returns all mistakes, or the first 20. Empty if the schedule can run:
//   * Every chunk of the model is on a stage, and stages run passes only of their own chunks.
//   * Every micro-batch goes through every chunk once: one forward, and either one backward or
//     separate passes for input and weight gradients, all on one stage.
//   * The dependencies and the order within each stage form no cycle. A forward depends on the
//     previous chunk's forward. A backward depends on the next chunk's backward and on its own
//     forward. Weight gradients depend on input gradients.
// Cycles are checked only if there is no other mistake. The time and memory of this check depend
// only on the lengths of the lists, not on the numbers in them.
std::vector<ScheduleMistake> CheckSchedule(const PipelineSchedule& schedule);

// Messages between two stages must arrive in the order in which they are sent. Returns a pass that
// violates this order, or no value. The schedule must have no mistakes, and each chunk must be on
// one stage.
std::optional<ScheduleMistake> MessageOutOfOrder(const PipelineSchedule& schedule);

// Returns, for each stage, the largest number of micro-batches in flight, summed over the stage's
// chunks. A micro-batch is in flight in a chunk from the start of its forward to the end of its
// backward, including weight gradients. The schedule must have no mistakes.
std::vector<int> MostInFlight(const PipelineSchedule& schedule);

// The micro-batches that wait for their backward when a stage begins the backward of another
// micro-batch through `chunk`. The stage has run the forward of the waiting micro-batches.
struct WaitingPasses {
  int chunk = 0;
  // The number of waiting micro-batches, indexed by the model's chunks. The micro-batch whose
  // backward begins is not included.
  std::vector<int> forwards;
  friend bool operator==(const WaitingPasses&, const WaitingPasses&) = default;
};
// Returns, for each stage, the waiting micro-batches when their number first reaches its maximum.
// The schedule must have no mistakes.
std::vector<WaitingPasses> MostWaiting(const PipelineSchedule& schedule);

// The times of a schedule's passes if communication takes no time. Used for drawings, for
// comparisons with formulas from papers, and for bounds.

// The durations of the passes through one chunk, in slots.
struct PassDurations {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::optional<std::int64_t> backward{};  // complete backward; not set: the sum of both parts
  // The duration of an overlapping pair. Not set: the sum of both passes.
  std::optional<std::int64_t> pair{};

  std::int64_t Of(const Action& action) const;
  std::int64_t Of(const ScheduleEntry& entry) const;  // 0 for a ParameterPass
  friend bool operator==(const PassDurations&, const PassDurations&) = default;
};

struct ScheduleTiming {
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  std::vector<std::vector<Span>> spans;  // [stage][entry]
  std::int64_t slots = 0;                // number of slots from the first start to the last end
  std::vector<std::int64_t> idle;        // [stage]: slots without computation (its bubble)
};

// Computes the times of all entries. Each stage runs its list in order, and each entry starts when
// its dependencies are done. The schedule must have no mistakes (CheckSchedule).
ScheduleTiming Time(const PipelineSchedule& schedule, const PassDurations& durations);

// Computes the times with separate durations for each chunk. The passes of a pair run sequentially.
ScheduleTiming Time(const PipelineSchedule& schedule, std::span<const PassDurations> chunks);

}  // namespace stepcast::parallel
