#include "src/forecast/time_parts.h"

#include <cstddef>

namespace stepcast::forecast {

using program::Phase;

std::vector<TimePart> PartsOf(const TimeBreakdown& time) {
  const auto phase = [&time](Phase which) { return time.phase[static_cast<std::size_t>(which)]; };
  return {
      {"forward", "forward", phase(Phase::kForward)},
      {"backward", "backward", phase(Phase::kBackward)},
      {"backward of weights", "backward_weight", phase(Phase::kBackwardWeight), false},
      {"optimizer", "optimizer", phase(Phase::kOptimizer)},
      {"checkpoint saving", "checkpoint_saving", phase(Phase::kCheckpoint), false},
      {"exposed communication", "exposed_communication", time.exposed_communication},
      {"imbalance", "imbalance", time.imbalance, false},
      {"pipeline bubble", "pipeline_bubble", time.pipeline_bubble, false},
      {"idle", "idle", time.idle},
      {"allocator flushes", "allocator_flushes", time.allocator_flushes, false},
      {"learned from runs", "learned", time.learned, false},
  };
}

}  // namespace stepcast::forecast
