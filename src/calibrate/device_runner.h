#pragma once

#include "src/calibrate/benchmark.h"
#include "src/runtime/backend.h"
#include "src/runtime/job.h"
#include "src/runtime/watch.h"

namespace stepcast::calibrate {

// Runs benchmarks on a backend, a device for each. All of it must outlive the runner. When an
// execution fails, the watch ends the run.
Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Watch& watch);

}  // namespace stepcast::calibrate
