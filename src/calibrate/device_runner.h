#pragma once

#include "src/calibrate/benchmark.h"
#include "src/runtime/backend.h"
#include "src/runtime/job.h"
#include "src/runtime/progress.h"

namespace stepcast::calibrate {

// Runs benchmarks on a backend, a device for each. All of it must outlive the runner. `progress` is
// for whoever watches over the run.
Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Progress& progress);

}  // namespace stepcast::calibrate
