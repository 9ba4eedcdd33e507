#pragma once

#include "src/cost/priced_device.h"
#include "src/cost/pricing.h"

namespace stepcast::cost {

// Prices the program's kernels. `slowest`: time of arithmetic on the slowest device over the
// typical time.
void PriceKernels(Pricing& pricing, PricedDevice& device, double slowest);

}  // namespace stepcast::cost
