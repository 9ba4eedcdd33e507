#pragma once

#include <vector>

#include "src/forecast/priced_class.h"
#include "src/forecast/shorter_step.h"
#include "src/forecast/simulated_ranks.h"
#include "src/memory/deferred_frees.h"
#include "src/program/program.h"

namespace stepcast::forecast {

// The frees of each priced class, in the classes' order, that the allocator defers.
std::vector<memory::DeferredFrees> FreesOf(const std::vector<PricedClass>& priced);

// The operations whose times are needed: those that deferred frees wait for, and those that say
// whether a step repeats itself.
class MarkedOperations {
 public:
  // `repeated`: null: the step is none that stands for a longer one. It is referred to.
  MarkedOperations(const std::vector<PricedClass>& priced,
                   const std::vector<memory::DeferredFrees>& frees,
                   const RepeatedOperations* repeated = nullptr);

  // Memory needs times.
  bool for_memory() const { return for_memory_; }
  // Something does.
  bool any() const { return for_memory_ || repeated_ != nullptr; }
  // The ranks refer to this. Those that are not reported matter to the period alone.
  void MarkIn(SimulatedRanks& ranks) const;

 private:
  std::vector<std::vector<bool>> marked_;          // by priced class and instruction
  std::vector<const program::Program*> programs_;  // likewise
  const RepeatedOperations* repeated_;
  bool for_memory_ = false;
};

}  // namespace stepcast::forecast
