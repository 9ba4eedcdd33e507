#pragma once

#include "src/cost/prices.h"
#include "src/program/program.h"

namespace stepcast::cost {

// The prices of the program on a device whose kernels take 1 / speed as long (0 < speed <= 1). What
// its host, its copies and its links do takes the same time.
Prices AtSpeed(const program::Program& program, Prices prices, double speed);

}  // namespace stepcast::cost
