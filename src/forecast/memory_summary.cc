#include "src/forecast/memory_summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/check.h"
#include "src/base/expected.h"
#include "src/forecast/forecast.h"
#include "src/forecast/uncertainty.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/lowering.h"
#include "src/memory/deferred_frees.h"
#include "src/memory/outside.h"
#include "src/plan/legality.h"
#include "src/program/program.h"

namespace stepcast::forecast {
namespace {

// The scenario with micro-batches of this many sequences, all of the greatest length.
scenario::Scenario At(const scenario::Scenario& scenario, std::int64_t micro_batch_size) {
  scenario::Scenario changed = scenario;
  plan::Training& training = changed.plan.training;
  if (training.has_padded_lengths()) training.lengths.reset();
  training.micro_batch_size = micro_batch_size;
  training.global_batch_size =
      micro_batch_size * training.gradient_accumulation * changed.plan.parallelism.data;
  return changed;
}

// The largest legal micro-batch of the plan.
std::int64_t LargestLegal(const plan::Plan& plan) {
  const std::int64_t tokens = plan.training.sequence_length;
  const std::int64_t of_rank = std::max<std::int64_t>(tokens / plan.parallelism.context, 1);
  return std::max<std::int64_t>(
      1, std::min(plan::kMostTokens / tokens, plan::kMostTokenPairs / (of_rank * tokens)));
}

}  // namespace

Result<MicroBatchLimit> FindMicroBatchLimit(const scenario::Scenario& scenario) {
  STEPCAST_CHECK(!scenario.model->is_layer_list(),
                 "each layer of a layer list must specify the size of its activations");
  Forecaster forecaster;
  const auto memory_at = [&](std::int64_t size) -> Result<MemoryForecast> {
    STEPCAST_TAKE(auto forecast, forecaster.Evaluate(At(scenario, size)));
    return forecast.memory;
  };
  MicroBatchLimit limit;
  STEPCAST_TAKE(auto one, memory_at(1));
  const Bytes room = one.capacity - one.outside;
  const auto may_fit = [&](std::int64_t size) {
    const std::vector<program::Program> programs = lowering::Lower(At(scenario, size));
    return std::all_of(programs.begin(), programs.end(), [&](const program::Program& own) {
      return memory::PeakInHostOrder(own) <= room;
    });
  };

  // Finds the first size that cannot fit by doubling and bisection, since this bound never falls.
  const std::int64_t largest_legal = LargestLegal(scenario.plan);
  std::int64_t fitting = 0;
  std::int64_t too_large = 1;
  while (too_large <= largest_legal && may_fit(too_large)) {
    fitting = too_large;
    too_large *= 2;
  }
  too_large = std::min(too_large, largest_legal + 1);
  while (too_large - fitting > 1) {
    const std::int64_t middle = fitting + (too_large - fitting) / 2;
    (may_fit(middle) ? fitting : too_large) = middle;
  }

  // Then tries smaller sizes one by one, since the allocator's overhead is not monotonic.
  MemoryForecast above;
  for (std::int64_t size = too_large - 1; size >= 1; --size) {
    STEPCAST_TAKE(auto memory, memory_at(size));
    if (memory.fits) {
      limit.largest = size;
      limit.of_the_plan = size == largest_legal;
      limit.memory = std::move(memory);
      if (limit.of_the_plan) return limit;
      if (size == too_large - 1) {
        STEPCAST_TAKE(above, memory_at(too_large));
      }
      limit.beyond = above;
      return limit;
    }
    above = std::move(memory);
  }
  limit.memory = std::move(one);
  return limit;
}

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

// The probability is at most one half if an allocation failed, even if the allocator holds less
// than the device's memory. The same holds if an allocation succeeds only after cached memory is
// returned.
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
  // Offloaded states on nodes are counted exactly.
  if (!memory.fits_host()) memory.fit_probability = 0;
  return memory;
}

}  // namespace stepcast::forecast
