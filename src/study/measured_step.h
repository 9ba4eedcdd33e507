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

// Explains a measured step time. Tries settings that often differ from the scenario in real runs,
// with one forecast for each. Also finds resources that may be slower than described. `file` and
// `set` are the file and settings from which `scenario` was loaded. `forecast` is the forecast of
// `scenario`.
Result<report::MeasuredStep> ExplainMeasured(const std::string& file,
                                             const std::vector<std::string>& set,
                                             const scenario::Scenario& scenario,
                                             const forecast::Forecast& forecast, Time measured,
                                             scenario::InputCache& cache);

// Like ExplainMeasured, but for a step in a trace, or in a folder with one trace for each rank
// (traced_steps.h). Also finds where the step's time differs from the forecast.
Result<report::MeasuredStep> ExplainTraced(const std::string& traces, const std::string& file,
                                           const std::vector<std::string>& set,
                                           const scenario::Scenario& scenario,
                                           scenario::InputCache& cache);

}  // namespace stepcast::study
