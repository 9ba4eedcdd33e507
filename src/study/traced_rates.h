#pragma once

#include <string>

#include "src/calibration/calibration.h"
#include "src/forecast/forecast.h"
#include "src/report/answers.h"
#include "src/scenario/scenario.h"
#include "src/study/traced_steps.h"

// Learns rates from a traced step. If kernels of a kind take f times the forecast time, their rates
// are divided by f. For collectives, the profile gets tables of the traced times.
namespace stepcast::study {

struct TracedRates {
  report::LearnedRates report;
  // The learned sections of the scenario's profile: kernels (for the libraries of the scenario's
  // PyTorch), host costs and collectives. The profile's name and provenance are also set.
  calibration::Calibration sections;
};

// Learns the rates. `run` is the forecast of the scenario. `source` is the file or folder from
// which `traced` was read.
TracedRates LearnRates(const scenario::Scenario& scenario, const forecast::Run& run,
                       const std::string& source, TracedSteps traced);

}  // namespace stepcast::study
