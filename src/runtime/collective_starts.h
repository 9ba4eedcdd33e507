#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/runtime/job.h"

namespace stepcast::runtime {

// A collective starts when its last member has reached it, which no member knows by itself: tells
// the others when this rank was at each, and moves the start of each record to the latest of all
// members' (but not beyond its end). `records` are this rank's, in any order; times are by a clock
// that all ranks share. All ranks of the job call this together, with the same steps.
Attempt<void> AgreeOnCollectiveStarts(const program::Program& program, Job& job,
                                      std::span<program::OperationRecord> records);

}  // namespace stepcast::runtime
