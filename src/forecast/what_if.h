#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/forecast.h"
#include "src/scenario/scenario.h"

// Forecasts the same step on a machine that has more of one resource. The program is simulated
// again with other prices, so overlap is recomputed.
namespace stepcast::forecast {

enum class MachineResource : std::uint8_t {
  kCompute,            // matrix products and attention
  kDeviceMemory,       // kernels limited by memory bandwidth
  kScaleUp,            // collectives over NVLink or PCIe inside a node
  kNetwork,            // collectives over the network
  kHostLink,           // copies between host and device
  kCollectiveLatency,  // the duration of an empty collective
  kLaunch,             // host time to issue kernels, copies and collectives
};
inline constexpr MachineResource kMachineResources[] = {
    MachineResource::kCompute, MachineResource::kDeviceMemory, MachineResource::kScaleUp,
    MachineResource::kNetwork, MachineResource::kHostLink,     MachineResource::kCollectiveLatency,
    MachineResource::kLaunch};
const char* Name(MachineResource resource);  // "compute", "device memory", ...

// Returns `prices` with one resource `factor` times as fast (slower if `factor` is below 1). If
// several resources limit an operation, it becomes faster only until the next one is the limit.
cost::Prices Faster(cost::Prices prices, MachineResource resource, double factor);

struct WhatIf {
  MachineResource resource = MachineResource::kCompute;
  Time step_time;
};

// Forecasts the step with one resource `factor` times as fast, once for each resource that affects
// `run`. `run` must be a run of `classes`. Errors: those of Simulate.
Result<std::vector<WhatIf>> WhatIfFaster(const scenario::Scenario& scenario,
                                         const std::vector<PricedClass>& classes, const Run& run,
                                         double factor);

// Returns the factor by which collectives must be faster, with unchanged latencies, so that exposed
// communication is at most the fraction `part` of the step. The factor is accurate to about 1 %. It
// is 1 if exposed communication is already that short. None if no factor suffices, because
// latencies, or too few kernels to overlap with, keep communication exposed.
Result<std::optional<double>> SpeedThatHides(const scenario::Scenario& scenario,
                                             const std::vector<PricedClass>& classes,
                                             const Run& run, double part);

// The speed of a resource at which the forecast equals the measured step time, as a fraction of the
// resource's described speed. It is accurate to about 1 %. None if no speed from 1/16 to 16 does
// so.
struct ExplainingSpeed {
  MachineResource resource = MachineResource::kCompute;
  std::optional<double> speed;
};

// Returns one entry for each resource on which the step depends, sorted by distance from the
// described speed. `step_time` is the forecast step time of the scenario. Errors: those of
// Simulate.
Result<std::vector<ExplainingSpeed>> SpeedsThatExplain(const scenario::Scenario& scenario,
                                                       Time step_time, Time measured);

}  // namespace stepcast::forecast
