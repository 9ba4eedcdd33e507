#pragma once

#include "src/calibrate/benchmark.h"
#include "src/runtime/backend.h"
#include "src/runtime/job.h"
#include "src/runtime/watch.h"

namespace stepcast::calibrate {

// A runner of benchmarks on a backend, which creates a new device for each benchmark. All arguments
// must outlive the runner. If an execution fails, the watch ends the run.
Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Watch& watch);

}  // namespace stepcast::calibrate
