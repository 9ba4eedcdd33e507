#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/report/answers.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"

namespace stepcast::study {

// Explains a measured step time: forecasts the step with each setting that often differs in real
// runs, and finds resources whose lower speed would explain the difference. `scenario` was loaded
// from `file` and `set`; `forecast` is the scenario's forecast.
Result<report::MeasuredStep> ExplainMeasured(const std::string& file,
                                             const std::vector<std::string>& set,
                                             const scenario::Scenario& scenario,
                                             const forecast::Forecast& forecast, Time measured,
                                             scenario::InputCache& cache);

// Like ExplainMeasured, but for a step in a trace, or in a folder with one trace for each rank
// (traced_steps.h). Also finds the causes of the difference in the traced step.
Result<report::MeasuredStep> ExplainTraced(const std::string& traces, const std::string& file,
                                           const std::vector<std::string>& set,
                                           const scenario::Scenario& scenario,
                                           scenario::InputCache& cache);

}  // namespace stepcast::study
