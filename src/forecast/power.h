#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The power of one GPU of the scenario's first nodes in each phase of a step, in watts.
struct PowerByPhase {
  double computing = 0;  // forward and backward; matrix products reach the board's limit
  double updating = 0;   // the optimizer, which is bound by memory
  double waiting = 0;    // communication, bubbles and idle time; power at rest
  bool at_most = false;  // the profile states no power, so all values are the board's limit
};
// All values are zero if neither the profile nor the data sheet states a power.
PowerByPhase PowerOf(const scenario::Scenario& scenario);

// Mean watts over the step.
double MeanPower(const PowerByPhase& power, const Forecast& forecast);

}  // namespace stepcast::forecast
