#pragma once

#include <vector>

#include "src/forecast/forecast.h"
#include "src/report/trace.h"
#include "src/validate/execution.h"

namespace stepcast::report {

// One process for each measured rank, by rank; in the time of rank 0, from the common start of
// measuring.
std::vector<TraceProcess> MeasuredProcesses(const validate::Execution& execution);

// The forecast first, then the measured ranks, so that the step that the forecast describes and the
// typical measured step start together.
std::vector<TraceProcess> BothProcesses(const forecast::Run& forecast,
                                        const validate::Execution& execution);

}  // namespace stepcast::report
