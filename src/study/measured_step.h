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

// What could make a step take as long as it was measured: settings that runs often have otherwise
// than the scenario says, each tried by a forecast of its own, and resources that are slower than
// described. `file` and `set` are what `scenario` was loaded from, `forecast` is its own.
Result<report::MeasuredStep> ExplainMeasured(const std::string& file,
                                             const std::vector<std::string>& set,
                                             const scenario::Scenario& scenario,
                                             const forecast::Forecast& forecast, Time measured,
                                             scenario::InputCache& cache);

// The same for a step in a trace, or in a folder with one for each rank (traced_steps.h), and where
// its time differs from the forecast's.
Result<report::MeasuredStep> ExplainTraced(const std::string& traces, const std::string& file,
                                           const std::vector<std::string>& set,
                                           const scenario::Scenario& scenario,
                                           scenario::InputCache& cache);

}  // namespace stepcast::study
