#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/runtime/job.h"

namespace stepcast::runtime {

// Sets the start of each collective's record to the time at which its last member was ready, but at
// most to the record's end. No member alone knows that time, so ranks exchange their ready times.
// `records` are this rank's, in any order; all ranks share one clock. All ranks of the job call
// this together, with the same steps.
Attempt<void> AgreeOnCollectiveStarts(const program::Program& program, Job& job,
                                      std::span<program::OperationRecord> records);

}  // namespace stepcast::runtime
