#pragma once

#include <string>

#include "src/base/time.h"
#include "src/calibration/run_settings.h"
#include "src/cost/prices.h"
#include "src/forecast/steady_run.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Corrects forecasts with the measured runs in the calibration profile
// (calibration/learned_runs.h). Simulated operations do not change. The correction is a separate
// part of the step time.

// Returns the scenario's settings that may affect the error of its forecast.
calibration::RunSettings SettingsOf(const scenario::Scenario& scenario);

// Returns the expected step time divided by the simulated time, or 1 if the profile has no runs.
// This factor depends only on the settings. A bound of the simulated time, times the factor, is
// therefore a bound of the corrected time.
double LearnedFactor(const scenario::Scenario& scenario);

// Corrects the step time, throughput and range of an otherwise complete forecast. A step never
// becomes shorter than its floating-point operations take at the devices' peak. If the profile
// contains similar runs, the range narrows to the accuracy with which forecasts reproduce these
// runs.
void ApplyRuns(const scenario::Scenario& scenario, Forecast& forecast);

// Handles unknown host costs. The host time per kernel is known only for few frameworks
// (calibration::FrameworkCosts). Forecasts of other frameworks assume zero, so small kernels may
// wait for the host longer than forecast.

// Returns the time that the host needs to issue one step if each kernel costs `dispatch`. This time
// is a lower bound of the step time.
Time HostTime(const program::Program& program, const StepCounts& counts, const cost::Prices& prices,
              const Dispatch& dispatch);

// Returns a sentence about unknown host costs, such as "the host costs of fsdp1 are unknown; with
// those of fsdp2, a step takes 34.8 ms".
std::string Sentence(const UnknownHost& unknown);

// Widens the forecast's range if the framework's host costs are unknown and the host may determine
// the step time. The upper end becomes the step time with the costs of the most expensive known
// framework (Forecast::unknown_host). Learned runs already include the host's part.
void WidenByUnknownHost(const scenario::Scenario& scenario, const program::Program& program,
                        const StepCounts& counts, const cost::Prices& prices, Forecast& forecast);

// Kinds of runs that are measured to be slower than their forecasts, for an unknown reason
// (docs/uncertainty.md, "Kinds of runs that are slower").

// Raises the upper end of the range to the largest ratio of measured to forecast time for the
// scenario's kind of run, and sets Forecast::known_gap. Call this after the range is set.
void WidenByKnownGap(const scenario::Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::forecast
