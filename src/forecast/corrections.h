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

// Corrects forecasts by measured runs in the calibration profile (calibration/learned_runs.h). The
// correction is a separate part of the step time; it does not change simulated operations.

// Returns the scenario's settings that may affect the forecast error.
calibration::RunSettings SettingsOf(const scenario::Scenario& scenario);

// Returns the expected step time divided by the simulated time, or 1 if the profile has no runs.
// The factor depends only on the settings. A bound of the simulated time, multiplied by the factor,
// is therefore a bound of the corrected time.
double LearnedFactor(const scenario::Scenario& scenario);

// Corrects the step time, throughput and range of an otherwise complete forecast. The step time
// remains at least the time of its FLOPs at the devices' peak. If the profile has similar runs, the
// range narrows to the accuracy of forecasts for these runs.
void ApplyRuns(const scenario::Scenario& scenario, Forecast& forecast);

// Unknown host costs. The host time per kernel is known only for some frameworks
// (calibration::FrameworkCosts). For other frameworks, it is assumed to be zero, so the step may be
// slower than forecast.

// Returns the host time to issue one step if each kernel takes `dispatch`. The issue time is a
// lower bound of the step time.
Time HostTime(const program::Program& program, const StepCounts& counts, const cost::Prices& prices,
              const Dispatch& dispatch);

// Returns a sentence about unknown host costs, such as "the host time of kernel launches was not
// measured for fsdp1. With the host times of fsdp2, a step takes 34.8 ms".
std::string Sentence(const UnknownHost& unknown);

// Widens the forecast's range if the framework's host costs are unknown and the host may limit the
// step time. The upper end becomes the step time with the highest known host costs
// (Forecast::unknown_host). Similar measured runs reduce the widening, because measured runs
// include the host's time. An equal run removes the widening.
void WidenByUnknownHost(const scenario::Scenario& scenario, const program::Program& program,
                        const StepCounts& counts, const cost::Prices& prices, Forecast& forecast);

// Kinds of runs that are slower than their forecasts for unknown reasons (docs/uncertainty.md,
// "Kinds of runs that are slower").

// For kinds of runs that are known to be slower, raises the range's upper end to the step time
// multiplied by the kind's largest ratio of measured to forecast time. Also sets
// Forecast::known_gap. Call this function after the range is set.
void WidenByKnownGap(const scenario::Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::forecast
