#pragma once

#include <string>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

namespace stepcast::report {

// The page that `simulate` prints for people: what was forecast, the step time, where it goes,
// which collectives run, and what is in memory. Depends on the input alone.
// `target`: what is said of the training.
std::string SimulateText(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         const forecast::TrainingTarget& target = {});

// The verdict on memory: "fits: 12.3 GiB of 80.0 GiB are left",
// "may not fit: ..." or
// "does not fit: 12.3 GiB more than the device's 80.0 GiB".
std::string MemorySentence(const forecast::MemoryForecast& memory);

}  // namespace stepcast::report
