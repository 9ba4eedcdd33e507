#pragma once

#include <cstdint>
#include <functional>

#include "src/forecast/training_run.h"
#include "src/scenario/scenario.h"

namespace stepcast::study {

// Returns a function that computes how a long run on `gpus` GPUs uses its time, with the default
// failures and checkpoints of `run-time` (forecast/long_run.h). Checkpoints have the state of the
// scenario's model and plan. The function is thread-safe.
std::function<forecast::UsedTime(std::int64_t gpus)> EffectiveTraining(
    const scenario::Scenario& scenario);

}  // namespace stepcast::study
