#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/forecast/forecast.h"
#include "src/scenario/scenario.h"

// Forecasts the step on a machine with a faster resource. Simulates the program again with the new
// prices, so overlap may change.
namespace stepcast::forecast {

enum class MachineResource : std::uint8_t {
  kCompute,            // matrix multiplications and attention
  kDeviceMemory,       // kernels that are limited by memory bandwidth
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

// Returns `prices` with one resource `factor` times as fast (slower if `factor` is below 1). If an
// operation uses several resources, the next slowest resource then limits its time.
cost::Prices Faster(cost::Prices prices, MachineResource resource, double factor);

struct WhatIf {
  MachineResource resource = MachineResource::kCompute;
  Time step_time;
};

// Forecasts the step with one resource `factor` times as fast, for each resource that affects
// `run`, which must be a run of `classes`. Errors: the errors of Simulate.
Result<std::vector<WhatIf>> WhatIfFaster(const scenario::Scenario& scenario,
                                         const std::vector<PricedClass>& classes, const Run& run,
                                         double factor);

// Returns the factor by which the bandwidth of collectives must increase so that exposed
// communication is at most the fraction `part` of the step. Accurate to about 1 %. 1 if no change
// is needed. None if no factor is sufficient, because latencies are too long or too few kernels can
// overlap.
Result<std::optional<double>> SpeedThatHides(const scenario::Scenario& scenario,
                                             const std::vector<PricedClass>& classes,
                                             const Run& run, double part);

// The speed of a resource, relative to the scenario, with which the forecast equals the measured
// step time. Accurate to about 1 %. None if no speed between 1/16 and 16 gives the measured step
// time.
struct ExplainingSpeed {
  MachineResource resource = MachineResource::kCompute;
  std::optional<double> speed;
};

// Returns one entry for each resource that affects the step, ordered by distance of the speed from
// 1. `step_time` is the forecast step time of the scenario. Errors: the errors of Simulate.
Result<std::vector<ExplainingSpeed>> SpeedsThatExplain(const scenario::Scenario& scenario,
                                                       Time step_time, Time measured);

}  // namespace stepcast::forecast
