#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/prices.h"
#include "src/forecast/forecast.h"
#include "src/scenario/scenario.h"

// The same step on a machine that is better in one respect: the program is run again at other
// prices, so what hides behind what is worked out anew.
namespace stepcast::forecast {

enum class Lever : std::uint8_t {
  kCompute,            // matrix products and attention
  kDeviceMemory,       // kernels that memory bandwidth limits
  kScaleUp,            // collectives over NVLink or PCIe inside a node
  kNetwork,            // collectives over the network
  kHostLink,           // copies between host and device
  kCollectiveLatency,  // what a collective takes however small it is
  kLaunch,             // host time to issue kernels, copies and collectives
};
inline constexpr Lever kLevers[] = {
    Lever::kCompute,  Lever::kDeviceMemory,      Lever::kScaleUp, Lever::kNetwork,
    Lever::kHostLink, Lever::kCollectiveLatency, Lever::kLaunch};
const char* Name(Lever lever);  // "compute", "device memory", ...

// `prices` where the lever is `factor` times as fast. An operation that several resources hold up
// gets faster only as far as the next one lets it.
cost::Prices Faster(cost::Prices prices, Lever lever, double factor);

struct WhatIf {
  Lever lever = Lever::kCompute;
  Time step_time;
};

// One for each lever that changes anything of `run`, which is of these classes. Errors: as
// Simulate.
Result<std::vector<WhatIf>> WhatIfFaster(const scenario::Scenario& scenario,
                                         const std::vector<PricedClass>& classes, const Run& run,
                                         double factor);

// How many times as fast collectives must send (their latencies stay) so that exposed communication
// is at most `part` of the step; to about 1 %. Nothing if it never is: latencies, or an order that
// leaves nothing to hide behind, keep it exposed. 1 if it already is.
Result<std::optional<double>> SpeedThatHides(const scenario::Scenario& scenario,
                                             const std::vector<PricedClass>& classes,
                                             const Run& run, double part);

}  // namespace stepcast::forecast
