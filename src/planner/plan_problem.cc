#include "src/planner/plan_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fmt/format.h"
#include "src/forecast/forecast.h"
#include "src/forecast/learned.h"
#include "src/lowering/host_offload.h"
#include "src/planner/bounds.h"

namespace stepcast::planner {
namespace {

using scenario::Scenario;

// FSDP with one micro-batch has nothing to put off: it communicates at the end
// of the only one (lowering/fsdp1.cc and fsdp2.cc, Synchronises), and a test
// holds the two programs to be the same.
bool PutsNothingOff(const plan::Plan& plan) {
  return plan.data_parallel.accumulate_unsharded && plan.training.gradient_accumulation == 1 &&
         !plan::TraitsOf(plan.data_parallel.framework).textbook;
}

// What a forecast depends on: the program and its prices, what a node's host
// holds, and what is the same for plans that differ in settings of data
// parallelism alone.
std::string ProgramId(const Scenario& scenario, const std::string& kind,
                      const std::string& digest) {
  const lowering::HostBytes host = lowering::HostBytesOfNode(scenario);
  return fmt::format("{} {} {} {} {}", kind, host.memory.count(), host.drives.count(),
                     forecast::LearnedFactor(scenario), digest);
}

// A bound of the simulated time bounds the corrected one by the same factor. A
// picosecond less, for the rounding of both.
Bound Corrected(const Scenario& scenario, Bound bound) {
  if (!scenario.calibration->runs) return bound;
  const double time = static_cast<double>(bound.step_time.picoseconds());
  const auto corrected = std::llround(time * forecast::LearnedFactor(scenario)) - 1;
  bound.step_time = Picoseconds(std::max<std::int64_t>(0, corrected));
  return bound;
}

Screened Look(const PlanSource& source, std::int64_t plan, bool closely) {
  Screened screened;
  const auto refuse = [&](const Diagnostics& faults) {
    screened.illegal_code = faults.front().code;
    screened.illegal_message = faults.front().message;
    return screened;
  };
  const auto scenario = source.load(plan);
  if (!scenario) return refuse(scenario.error());
  screened.facts = {
      .gpus = scenario->cluster->devices(),
      .tokens = scenario->plan.training.global_batch_size * scenario->plan.training.sequence_length,
      .capacity = scenario->cluster->device_memory()};
  screened.same_as_another = PutsNothingOff(scenario->plan) && source.has_twin(plan);
  if (screened.same_as_another) return screened;
  thread_local Bounds bounds;
  if (!closely) {
    const auto bound = bounds.OfKernels(*scenario);
    if (!bound) return refuse(bound.error());
    screened.bound = Corrected(*scenario, *bound);
    return screened;
  }
  const auto found = bounds.LookAtProgram(*scenario, source.kind != nullptr);
  if (!found) return refuse(found.error());
  screened.bound = Corrected(*scenario, found->bound);
  if (!found->digest.empty()) {
    screened.program = ProgramId(*scenario, source.kind(plan), found->digest);
  }
  return screened;
}

Outcome Simulate(const PlanSource& source, std::int64_t plan) {
  Outcome outcome;
  const auto scenario = source.load(plan);
  thread_local forecast::Forecaster forecaster;
  const auto forecast =
      scenario ? forecaster.Evaluate(*scenario) : tl::make_unexpected(scenario.error());
  if (!forecast) {
    outcome.illegal_message = forecast.error().front().message;
    return outcome;
  }
  const forecast::MemoryForecast& memory = forecast->memory;
  outcome.step_time = forecast->step_time;
  outcome.tokens_per_second_per_gpu = forecast->tokens_per_second_per_gpu;
  outcome.memory = memory.peak;
  outcome.reserved = memory.reserved;
  outcome.outside = memory.outside;
  outcome.fits = memory.fits;
  outcome.fits_host = memory.fits_host();
  outcome.verdict = memory.verdict();
  outcome.fit_probability = memory.fit_probability;
  outcome.over = memory.reserved + memory.outside - memory.capacity;
  outcome.flushes = static_cast<int>(memory.allocator_flushes);
  if (!memory.fits) {
    outcome.over = std::max(
        {outcome.over, memory.host - memory.host_capacity, memory.drives - memory.drives_capacity});
  }
  return outcome;
}

}  // namespace

SearchProblem ProblemOf(const PlanSource& source) {
  return {.plans = source.plans,
          .screen = [&source](std::int64_t plan) { return Look(source, plan, false); },
          .sharpen = [&source](std::int64_t plan) { return Look(source, plan, true); },
          .simulate = [&source](std::int64_t plan) { return Simulate(source, plan); }};
}

}  // namespace stepcast::planner
