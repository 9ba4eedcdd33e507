#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// Kinds of runs that are measured to be slower than their forecasts, for a reason that nobody has
// found yet (docs/uncertainty.md, "Kinds of runs that are slower").
namespace stepcast::forecast {

// Raises the upper end of the range to what measured steps of the scenario's kind have taken for
// their forecasts, if that is more, and says so in Forecast::known_gap. To be called when the range
// is there.
void WidenByKnownGap(const scenario::Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::forecast
