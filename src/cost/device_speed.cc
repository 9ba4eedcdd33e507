#include "src/cost/device_speed.h"

#include <cstddef>

#include "src/cost/slowest_device.h"

namespace stepcast::cost {

Prices AtSpeed(const program::Program& program, Prices prices, double speed) {
  for (std::size_t i = 0; i < prices.kernels.size(); ++i) {
    if (program.kernels[i].on_host) continue;
    Demand& demand = prices.kernels[i];
    demand.latency = ScaledTime(demand.latency, 1 / speed);
    demand.work = ScaledTime(demand.work, 1 / speed);
  }
  return prices;
}

}  // namespace stepcast::cost
