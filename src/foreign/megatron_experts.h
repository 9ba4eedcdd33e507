#pragma once

#include "src/foreign/framework.h"

// Megatron-LM's arguments of mixtures of experts.
namespace stepcast::foreign {

// What the model is: `num-experts` is more than one.
void ReadExpertsOfModel(Reading& reading);

// And how its experts run: `experts`.
void ReadHowExpertsRun(Reading& reading);

}  // namespace stepcast::foreign
