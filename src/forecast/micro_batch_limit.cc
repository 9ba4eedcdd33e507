#include "src/forecast/micro_batch_limit.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"
#include "src/forecast/forecast.h"
#include "src/lowering/lowering.h"
#include "src/memory/host_order.h"
#include "src/plan/legality.h"
#include "src/program/program.h"

namespace stepcast::forecast {
namespace {

// The scenario with micro-batches of so many sequences, all as long as the longest.
scenario::Scenario At(const scenario::Scenario& scenario, std::int64_t micro_batch_size) {
  scenario::Scenario changed = scenario;
  plan::Training& training = changed.plan.training;
  if (training.has_padded_lengths()) training.lengths.reset();
  training.micro_batch_size = micro_batch_size;
  training.global_batch_size =
      micro_batch_size * training.gradient_accumulation * changed.plan.parallelism.data;
  return changed;
}

// The largest micro-batch that plans may have.
std::int64_t LargestLegal(const plan::Plan& plan) {
  const std::int64_t tokens = plan.training.sequence_length;
  const std::int64_t of_rank = std::max<std::int64_t>(tokens / plan.parallelism.context, 1);
  return std::max<std::int64_t>(
      1, std::min(plan::kMostTokens / tokens, plan::kMostTokenPairs / (of_rank * tokens)));
}

}  // namespace

Result<MicroBatchLimit> FindMicroBatchLimit(const scenario::Scenario& scenario) {
  STEPCAST_CHECK(!scenario.model->is_layer_list(), "a layer list's activations are given");
  Forecaster forecaster;
  const auto memory_at = [&](std::int64_t size) -> Result<MemoryForecast> {
    auto forecast = forecaster.Evaluate(At(scenario, size));
    if (!forecast) return tl::unexpected(std::move(forecast.error()));
    return forecast->memory;
  };
  MicroBatchLimit limit;
  auto one = memory_at(1);
  if (!one) return tl::unexpected(std::move(one.error()));
  const Bytes room = one->capacity - one->outside;
  const auto may_fit = [&](std::int64_t size) {
    const std::vector<program::Program> programs = lowering::Lower(At(scenario, size));
    return std::all_of(programs.begin(), programs.end(), [&](const program::Program& own) {
      return memory::PeakInHostOrder(own) <= room;
    });
  };

  // The first size that cannot fit, by doubling and halving: this bound never falls.
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

  // From there down to the first that does fit: what the allocator adds may go up and down.
  MemoryForecast above;
  for (std::int64_t size = too_large - 1; size >= 1; --size) {
    auto memory = memory_at(size);
    if (!memory) return tl::unexpected(std::move(memory.error()));
    if (memory->fits) {
      limit.largest = size;
      limit.of_the_plan = size == largest_legal;
      limit.memory = *std::move(memory);
      if (limit.of_the_plan) return limit;
      if (size == too_large - 1) {
        auto next = memory_at(too_large);
        if (!next) return tl::unexpected(std::move(next.error()));
        above = *std::move(next);
      }
      limit.beyond = above;
      return limit;
    }
    above = *std::move(memory);
  }
  limit.memory = *std::move(one);
  return limit;
}

}  // namespace stepcast::forecast
