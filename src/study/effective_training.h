#pragma once

#include <cstdint>
#include <functional>

#include "src/forecast/training_run.h"
#include "src/scenario/scenario.h"

namespace stepcast::study {

// Returns the time of a long run that a number of GPUs use. Failures and checkpoints are those that
// `run-time` assumes by default (forecast/long_run.h). The saved state is that of the scenario's
// model and plan. May be called from several threads.
std::function<forecast::UsedTime(std::int64_t gpus)> EffectiveTraining(
    const scenario::Scenario& scenario);

}  // namespace stepcast::study
