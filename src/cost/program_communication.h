#pragma once

#include "src/cost/priced_machine.h"
#include "src/cost/pricing.h"
#include "src/cost/program_copies.h"

namespace stepcast::cost {

// Prices the program's collectives and the messages of its exchanges: alone, and, where nothing was
// reported, on links that others use at the same time. `copies`: of what a rank sends to itself.
void PriceCommunication(Pricing& pricing, PricedMachine& machine, CopyPricer& copies);

}  // namespace stepcast::cost
