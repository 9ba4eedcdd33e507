#pragma once

#include <cstddef>
#include <vector>

#include "src/parallel/pipeline_schedule.h"

// What has to run before what.
namespace stepcast::parallel {

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

}  // namespace stepcast::parallel
