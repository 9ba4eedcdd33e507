#pragma once

#include <cstdint>
#include <functional>

#include "src/forecast/training_run.h"
#include "src/scenario/scenario.h"

namespace stepcast::study {

// Returns a function of the number of GPUs that returns how a long run's time is used, with the
// default failures and checkpoints of `run-time` (forecast/long_run.h). Checkpoints save the state
// of the scenario's model and plan. The function is thread-safe.
std::function<forecast::UsedTime(std::int64_t gpus)> EffectiveTraining(
    const scenario::Scenario& scenario);

}  // namespace stepcast::study
