#include "src/forecast/memory_summary.h"

#include <algorithm>
#include <cmath>

#include "src/forecast/uncertainty.h"
#include "src/lowering/host_offload.h"
#include "src/memory/outside.h"

namespace stepcast::forecast {
namespace {

// Textbook data parallelism has no allocator and no context.
bool IsTextbook(const scenario::Scenario& scenario) {
  return plan::TraitsOf(scenario.plan.data_parallel.framework).textbook;
}

}  // namespace

Bytes OutsideAllocator(const scenario::Scenario& scenario, std::size_t communicators) {
  const auto& costs = scenario.calibration->memory;
  if (!costs || IsTextbook(scenario)) return {};
  return memory::OutsideAllocator(*costs, communicators);
}

double MemoryErrorOf(const scenario::Scenario& scenario, plan::Framework framework) {
  return plan::TraitsOf(framework).textbook ? 0 : MemoryError(scenario.calibration->residuals);
}

double FitProbabilityOf(const scenario::Scenario& scenario, Bytes reserved, Bytes outside) {
  const Bytes available = scenario.cluster->device_memory() - outside;
  if (IsTextbook(scenario)) return reserved <= available ? 1 : 0;
  constexpr double kThousandths = 1000;
  return std::round(kThousandths *
                    FitProbability(available, reserved, scenario.calibration->residuals)) /
         kThousandths;
}

namespace {

// Where an allocation failed it is even at most, although the allocator may hold less than there
// is; so it is where one fails until cached memory is given back.
double FitProbabilityOf(const scenario::Scenario& scenario, const MemoryForecast& memory) {
  if (IsTextbook(scenario)) return memory.fits ? 1 : 0;
  constexpr double kEven = 0.5;
  const bool failed = !memory.fits || memory.allocator_flushes > 0;
  return std::min(forecast::FitProbabilityOf(scenario, memory.reserved, memory.outside),
                  failed ? kEven : 1);
}

}  // namespace

memory::Device DeviceOf(const scenario::Scenario& scenario, const program::Program& program) {
  const Bytes outside = OutsideAllocator(scenario, program.communicators.size());
  const auto allocator = [&] {
    if (IsTextbook(scenario)) return memory::Allocator::kNone;
    return scenario.plan.software.expandable_segments ? memory::Allocator::kCachingExpandable
                                                      : memory::Allocator::kCaching;
  };
  return {.capacity = std::max(Bytes(0), scenario.cluster->device_memory() - outside),
          .allocator = allocator()};
}

MemoryForecast SummariseMemory(const scenario::Scenario& scenario, const program::Program& program,
                               const memory::Usage& usage) {
  MemoryForecast memory;
  memory.outside = OutsideAllocator(scenario, program.communicators.size());
  memory.capacity = scenario.cluster->device_memory();
  memory.at_peak = usage.at_peak;
  memory.peak = usage.peak;
  memory.padding = usage.padding;
  memory.reserved = usage.reserved;
  memory.fits = usage.fits;
  memory.allocator_flushes = usage.flushes;
  memory.peak_range = MemoryRange(usage.peak, scenario.calibration->residuals);
  const double error = MemoryErrorOf(scenario, scenario.plan.data_parallel.framework);
  memory.error = Bytes(std::llround(error * static_cast<double>(usage.reserved.count())));
  memory.fit_probability = FitProbabilityOf(scenario, memory);
  const lowering::HostBytes host = lowering::HostBytesOfNode(scenario);
  memory.host = host.memory;
  memory.drives = host.drives;
  if (!memory.offloads()) return memory;
  const topology::Host& node = *scenario.cluster->node_type()->host;
  memory.host_capacity = node.memory;
  memory.drives_capacity = node.nvme;
  memory.fits = memory.fits && memory.fits_host();
  // What nodes hold of offloaded states is counted exactly.
  if (!memory.fits_host()) memory.fit_probability = 0;
  return memory;
}

}  // namespace stepcast::forecast
