#pragma once

#include <string>

#include "src/cost/prices.h"
#include "src/forecast/step_counts.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

// Host costs that are not known. What a framework's code takes the host for a kernel is known of
// few frameworks (calibration::FrameworkCosts); forecasts of others leave it out, and small kernels
// may then wait for the host longer than forecast.
namespace stepcast::forecast {

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

}  // namespace stepcast::forecast
