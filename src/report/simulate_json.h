#pragma once

#include <string>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::report {

// The document of `simulate --json`, version 1. Everything but its last key, `run`, depends on the
// input alone; `seconds` is the wall-clock time of the run, `target` what is said of the training.
std::string SimulateJson(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         double seconds, const forecast::TrainingTarget& target = {});

}  // namespace stepcast::report
