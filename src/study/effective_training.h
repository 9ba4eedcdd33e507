#pragma once

#include <cstdint>
#include <functional>

#include "src/forecast/training_run.h"
#include "src/scenario/scenario.h"

namespace stepcast::study {

// The time of a long run that a number of GPUs use, with failures and checkpoints as
// `run-time` assumes by default (forecast/long_run.h), for the state of the scenario's model and
// plan. May be called from several threads.
std::function<forecast::UsedTime(std::int64_t gpus)> EffectiveTraining(const scenario::Scenario& scenario);

}  // namespace stepcast::study
