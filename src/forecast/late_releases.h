#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/memory_timeline.h"
#include "src/forecast/memory_times.h"
#include "src/program/program.h"
#include "src/simulate/schedule.h"

namespace stepcast::forecast {

// An allocation or release of a step, and what kind of buffer it is about: those of a kind have the
// same size.
struct KindChange {
  std::uint32_t kind = 0;
  bool release = false;
};

// The most that a program hands out where releases wait for operations and allocations until then
// find the buffers still held, without going through its changes: at all changes of one moment, and
// up to the next release that can be late, the same buffers are held longer. So what is handed out
// is most where the program by itself hands out most between two such boundaries, and parts of a
// step between these are mostly alike.
class LateReleases {
 public:
  // `changes`: those of the step, each of which releases what it allocates; `instructions`: theirs.
  void Build(std::span<const KindChange> changes, std::span<const program::Index> instructions,
             const DelayedReleases& delayed, const simulate::Schedule& schedule);
  // The schedule with which it was built (its id); 0: none.
  std::uint64_t schedule() const { return schedule_; }

  struct Peak {
    std::int64_t total = 0;
    // By kind: buffers of the step that are held then.
    std::span<const std::int32_t> counts;
  };
  // `sizes`: by kind. `held`: what was handed out before the first step, for good. The first moment
  // with most. Nothing where what one step releases is still held in the next.
  std::optional<Peak> MostHeld(const MemoryTimes& times, std::span<const std::int64_t> sizes,
                               std::int64_t held);

 private:
  // Changes at one time.
  struct Moment {
    std::uint32_t segment = 0;  // of the step
    Time later;                 // after its begin
    std::uint32_t part = 0;     // with which it begins
  };
  // A release that can be late: with this one's part it begins to be.
  struct Delay {
    std::uint32_t moment = 0;
    std::uint32_t part = 0;
    std::uint32_t kind = 0;
    std::uint32_t first = 0, last = 0;  // of uses_
  };
  // Changes, by what they do: how much more is handed out after them, and at most meanwhile.
  struct Shape {
    std::uint32_t first = 0, last = 0;  // of effects_, where it comes first
    std::int64_t rise = 0, most = 0;
  };

  void AddPart(std::uint32_t first, std::uint32_t last);
  void Measure(std::span<const std::int64_t> sizes);
  bool FindLate(const MemoryTimes& times, std::uint32_t step, Time next,
                std::span<const std::int64_t> sizes);
  void Count(std::uint32_t changes);

  std::uint64_t schedule_ = 0;
  std::vector<std::uint32_t> effects_;  // by change: twice the kind, and 1 more for a release
  std::vector<Moment> moments_;
  std::vector<Delay> delays_;
  std::vector<std::uint32_t> uses_;   // as DelayedReleases counts
  std::vector<std::uint32_t> first_;  // by part: its first change
  std::vector<std::uint32_t> parts_;  // their shapes
  std::vector<Shape> shapes_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;  // while building: by a hash

  std::vector<std::int64_t> sizes_;    // for which the shapes are measured
  std::vector<std::int64_t> effect_;   // room: of each effect, bytes
  std::vector<Time> times_;            // room: of moments, in the step at hand
  std::vector<std::int64_t> late_;     // room: by part, what more or less is held late
  std::vector<std::uint32_t> until_;   // room: by delay, the part before which it is noticed
  std::vector<std::int32_t> counted_;  // by kind: buffers after so many changes of the step
  std::optional<std::uint32_t> counted_changes_;
  std::vector<std::int32_t> counts_;  // by kind: at the peak
  std::vector<std::int32_t> late_counts_;
};

}  // namespace stepcast::forecast
