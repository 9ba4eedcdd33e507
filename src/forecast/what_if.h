#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/cost/prices.h"
#include "src/forecast/forecast.h"
#include "src/scenario/scenario.h"

// The same step on a machine with more of one resource: the program is simulated again at other
// prices, so overlap is computed anew.
namespace stepcast::forecast {

enum class MachineResource : std::uint8_t {
  kCompute,            // matrix products and attention
  kDeviceMemory,       // kernels that memory bandwidth limits
  kScaleUp,            // collectives over NVLink or PCIe inside a node
  kNetwork,            // collectives over the network
  kHostLink,           // copies between host and device
  kCollectiveLatency,  // the time of a collective of no bytes
  kLaunch,             // host time to issue kernels, copies and collectives
};
inline constexpr MachineResource kMachineResources[] = {
    MachineResource::kCompute, MachineResource::kDeviceMemory, MachineResource::kScaleUp,
    MachineResource::kNetwork, MachineResource::kHostLink,     MachineResource::kCollectiveLatency,
    MachineResource::kLaunch};
const char* Name(MachineResource resource);  // "compute", "device memory", ...

// `prices` where the resource is `factor` times as fast, or slow if that is below 1. An operation
// that several resources bound gets faster only up to the next bound.
cost::Prices Faster(cost::Prices prices, MachineResource resource, double factor);

struct WhatIf {
  MachineResource resource = MachineResource::kCompute;
  Time step_time;
};

// One for each resource that changes anything of `run`, which is of these classes. Errors: as
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
