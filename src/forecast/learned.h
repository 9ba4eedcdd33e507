#pragma once

#include "src/base/time.h"
#include "src/calibration/run_settings.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// Forecasts corrected by the runs that the calibration profile has learned from
// (calibration/learned_runs.h). Everything that is simulated stays as it is, operation by
// operation; what runs add to the step is a part of it by itself.
namespace stepcast::forecast {

// The settings on which a forecast's error may depend.
calibration::RunSettings SettingsOf(const scenario::Scenario& scenario);

// The part of the simulated time that the step is expected to take: 1 without runs. It depends on
// the settings alone, so that a bound of the simulated time times it bounds the corrected one.
double LearnedFactor(const scenario::Scenario& scenario);

// Corrects the step time, throughput and range of a forecast that is otherwise complete. No step
// becomes shorter than its floating point operations at the devices' peak. The range narrows to how
// well the runs around are reproduced, where there are some.
void ApplyRuns(const scenario::Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::forecast
