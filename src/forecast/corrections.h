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

// Forecasts corrected by the runs that the calibration profile has learned from
// (calibration/learned_runs.h). Everything that is simulated stays as it is, operation by
// operation; what runs add to the step is a part of it by itself.

// The settings on which a forecast's error may depend.
calibration::RunSettings SettingsOf(const scenario::Scenario& scenario);

// The part of the simulated time that the step is expected to take: 1 without runs. It depends on
// the settings alone, so that a bound of the simulated time times it bounds the corrected one.
double LearnedFactor(const scenario::Scenario& scenario);

// Corrects the step time, throughput and range of a forecast that is otherwise complete. No step
// becomes shorter than its floating point operations at the devices' peak. The range narrows to how
// well the runs around are reproduced, where there are some.
void ApplyRuns(const scenario::Scenario& scenario, Forecast& forecast);

// Host costs that are not known. What a framework's code takes the host for a kernel is known of
// few frameworks (calibration::FrameworkCosts); forecasts of others leave it out, and small kernels
// may then wait for the host longer than forecast.

// How long the host takes to issue a step if a kernel costs it `dispatch`: no step is shorter.
Time HostTime(const program::Program& program, const StepCounts& counts, const cost::Prices& prices,
              const Dispatch& dispatch);

// "fsdp1's costs are not known; with fsdp2's a step takes 34.8 ms"
std::string Sentence(const UnknownHost& unknown);

// Where the framework's costs are not known and the host may bound the step beyond the forecast's
// range: widens it up to where the costliest framework that is known would have it, and says so
// (Forecast::unknown_host). Runs that forecasts learned from have the host's part in them.
void WidenByUnknownHost(const scenario::Scenario& scenario, const program::Program& program,
                        const StepCounts& counts, const cost::Prices& prices, Forecast& forecast);

// Kinds of runs that are measured to be slower than their forecasts, for a reason that nobody has
// found yet (docs/uncertainty.md, "Kinds of runs that are slower").

// Raises the upper end of the range to what measured steps of the scenario's kind have taken for
// their forecasts, if that is more, and says so in Forecast::known_gap. To be called when the range
// is there.
void WidenByKnownGap(const scenario::Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::forecast
