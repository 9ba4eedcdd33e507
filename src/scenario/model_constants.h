#pragma once

#include <string>

#include "src/base/diagnostic.h"
#include "src/model/numerical_constants.h"
#include "src/scenario/scenario.h"

namespace stepcast::scenario {

// The constants of the scenario's model, from the description that it was loaded from; `source` is
// the scenario's file. Errors: those of a file that has changed since.
Result<model::NumericalConstants> ModelConstantsOf(const Scenario& scenario,
                                                   const std::string& source);

}  // namespace stepcast::scenario
