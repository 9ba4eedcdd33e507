#pragma once

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The power of a GPU of the scenario's first nodes in each phase of a step, in watts.
struct PowerByPhase {
  double computing = 0;  // forward and backward: products bring it to the board's limit
  double updating = 0;   // the optimizer, which memory bounds
  double waiting = 0;    // communication, bubbles and idle time; at rest
  bool at_most = false;  // the profile has no power: the board's limit stands for all of them
};
// All zero where neither the profile nor the data sheet says anything.
PowerByPhase PowerOf(const scenario::Scenario& scenario);

// Mean watts over the step.
double MeanPower(const PowerByPhase& power, const Forecast& forecast);

}  // namespace stepcast::forecast
