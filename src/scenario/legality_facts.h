#pragma once

#include "src/plan/facts.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// What the rules about plans (plan::Check) need to know of a scenario's model, cluster and GPUs.
// Parts that the scenario lacks are left out of it.
plan::Facts LegalityFactsOf(const Scenario& scenario);

}  // namespace stepcast::scenario
