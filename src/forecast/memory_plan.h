#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/engine/pool_course.h"
#include "src/forecast/late_releases.h"
#include "src/forecast/memory_timeline.h"
#include "src/forecast/memory_times.h"
#include "src/forecast/pool_courses.h"
#include "src/program/program.h"

namespace stepcast::forecast {

// Memory peaks of programs that have the same instructions over buffers of other sizes, as the rows
// of a sweep have that differ in numbers of ranks alone. What follows from the instructions is
// worked out once; and what follows from sizes, where they decide in the same way as those of a
// program before.
//
// It learns which sizes change from the programs it is asked about, and which buffers have the same
// size, where it is not told.
class MemoryPlan {
 public:
  // `courses` may be shared by plans, and outlives this one. `likeness`: by buffer; those that have
  // the same one, and the same size and padding here, have so in all programs. Empty: that is not
  // known.
  MemoryPlan(const program::Program& program, PoolCourses& courses,
             std::span<const std::uint64_t> likeness = {});

  // What UntimedPeaks says of the program, which has the instructions of the first one. Nothing
  // where only a replay can tell: where the allocator has to give segments back, or buffers come
  // and go in other ways than a framework's. Requires that releases are not timed.
  std::optional<MemoryPeak> HandedOut(const program::Program& program, Bytes capacity);
  std::optional<MemoryPeak> Of(const program::Program& program, int steps, Bytes capacity);
  // What PeakHandedOut says of a run, if releases are timed. Nothing, too, where what one step
  // releases is still held in the next.
  std::optional<MemoryPeak> HandedOut(const program::Program& program, const MemoryTimes& times,
                                      Bytes capacity);

 private:
  // An allocation or release; buffers are numbered by used_.
  struct Change {
    std::uint32_t buffer = 0;
    std::uint16_t stream = 0;
    bool release = false;
    friend bool operator==(const Change&, const Change&) = default;
  };
  // Buffers that were the same in all programs so far.
  struct Kind {
    std::uint32_t first = 0;  // one of them, in used_
    program::Category category = program::Category::kActivation;
    std::int64_t size = 0, padding = 0;  // in this program
    bool changes = false;                // were others in a program before
    std::uint32_t block = 0;             // of block_sizes_
  };
  // Sizes of the allocator's blocks that were the same in all programs so far.
  struct BlockSize {
    std::uint32_t first = 0;  // one of the kinds that have it
    std::int64_t size = 0;    // in this program
    bool changes = false, small = false;
  };
  // A moment that may be the peak: the one with the most bytes of those at which equally many
  // buffers of each changing kind are handed out.
  struct Moment {
    std::size_t time = 0;                                          // how many changes before it
    std::int64_t bytes = 0, padding = 0;                           // of kinds that do not change
    std::array<std::int64_t, program::kCategories> by_category{};  // of the same
    std::vector<std::int32_t> changing{};                          // buffers, by changing kind
  };
  // Of one stream, small or large.
  struct Pool {
    std::vector<std::uint32_t> stay;   // blocks that the prologue allocates: sizes, in order
    std::vector<std::uint32_t> asked;  // sizes that a step asks for, by the courses' numbers
    std::shared_ptr<PoolCourses::Pool> courses;  // null: a step asks for nothing
    // What the blocks that stay took from the device, and what is free at the ends of that.
    bool placed = false, changes = false;  // it is not the same for all programs
    std::int64_t segments = 0;
    std::vector<std::int64_t> ends;
  };

  bool IsRegular() const;
  void FindKinds(const program::Program& program, std::span<const std::uint64_t> likeness);
  void Learn(const program::Program& program);
  bool TooManyChange() const;
  void SplitKinds(const program::Program& program);
  bool LearnBlockSizes();
  void FindMoments();
  MemoryPeak Peak();
  void BuildLate(const MemoryTimes& times);
  void FillPools();
  void PlaceWhatStays(Pool& pool, bool small);
  std::int64_t Reserved(Pool& pool, bool small, int steps);

  PoolCourses* courses_;

  std::vector<program::Index> used_;  // buffers
  std::vector<Change> prologue_, step_;
  std::vector<engine::PoolRequests::Part> parts_;  // of step_, micro-batch by micro-batch
  std::size_t streams_ = 0;
  bool regular_ = false;
  bool kinds_stay_ = false;  // buffers of one kind are so in all programs

  std::vector<std::uint32_t> kind_of_;  // by used_
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> changing_;  // kinds
  std::vector<Moment> moments_;
  bool moments_known_ = false;

  // Of programs whose releases wait for operations.
  std::vector<program::Index> instructions_;  // of step_
  LateReleases late_;
  std::size_t late_kinds_ = 0;         // so many kinds there were when it was built
  std::vector<std::int32_t> staying_;  // by kind: buffers that the prologue allocates
  std::vector<std::int64_t> kind_sizes_;

  std::vector<BlockSize> block_sizes_;
  std::vector<Pool> pools_;  // of stream s: 2s small, 2s + 1 large
  bool pools_known_ = false;
  // A pool's: room.
  std::vector<std::int64_t> sizes_, ends_;
  std::vector<std::uint8_t> changes_;
};

}  // namespace stepcast::forecast
