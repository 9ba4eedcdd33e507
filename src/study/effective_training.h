#pragma once

#include <cstdint>
#include <functional>

#include "src/scenario/scenario.h"

namespace stepcast::study {

// The fraction of a long run in which a number of GPUs train, with failures and checkpoints as
// `run-time` assumes by default (forecast/long_run.h), for the state of the scenario's model and
// plan. May be called from several threads.
std::function<double(std::int64_t gpus)> EffectiveTraining(const scenario::Scenario& scenario);

}  // namespace stepcast::study
