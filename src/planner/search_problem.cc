#include "src/planner/search_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fmt/format.h"
#include "src/base/stop.h"
#include "src/forecast/corrections.h"
#include "src/forecast/forecast.h"
#include "src/forecast/long_run.h"
#include "src/lowering/host_offload.h"
#include "src/planner/bounds.h"

namespace stepcast::planner {
namespace {

using scenario::Scenario;

// Whether FSDP has nothing to defer: with one micro-batch it communicates at the end of that one
// (lowering/fsdp1.cc and fsdp2.cc, Synchronises). A test checks that the two programs are the same.
bool PutsNothingOff(const plan::Plan& plan) {
  return plan.data_parallel.accumulate_unsharded && plan.training.gradient_accumulation == 1 &&
         !plan::TraitsOf(plan.data_parallel.framework).textbook;
}

// Identifies a forecast: the program and its prices, the host memory of a node, and everything else
// that plans differing only in settings of data parallelism share.
std::string ProgramId(const Scenario& scenario, const std::string& kind,
                      const std::string& digest) {
  const lowering::HostBytes host = lowering::HostBytesOfNode(scenario);
  return fmt::format("{} {} {} {} {}", kind, host.memory.count(), host.drives.count(),
                     forecast::LearnedFactor(scenario), digest);
}

// A bound of the simulated time bounds the corrected time by the same factor, minus a picosecond
// for rounding of both.
Time Corrected(const Scenario& scenario, Time bound) {
  if (!scenario.calibration->runs) return bound;
  const double time = static_cast<double>(bound.picoseconds());
  const auto corrected = std::llround(time * forecast::LearnedFactor(scenario)) - 1;
  return Picoseconds(std::max<std::int64_t>(0, corrected));
}

// Adds the correction by measured runs and the bound of the energy.
Bound Completed(const Scenario& scenario, Bound bound) {
  bound.step_time = Corrected(scenario, bound.step_time);
  bound.computing = Corrected(scenario, bound.computing);
  const forecast::PowerByPhase power = forecast::PowerOf(scenario);
  constexpr double kRounding = 1 - 1e-9;
  bound.joules = kRounding * (power.waiting * bound.step_time.seconds() +
                              (power.computing - power.waiting) * bound.computing.seconds());
  return bound;
}

Screened Refused(const LoadedPlan& plan) {
  return {.illegal_code = plan.code, .illegal_message = plan.message, .illegal_hint = plan.hint};
}
Screened Refused(const Diagnostics& faults) {
  return {.illegal_code = faults.front().code,
          .illegal_message = faults.front().message,
          .illegal_hint = faults.front().hint};
}

// The tighter of both bounds in every figure.
Bound Sharper(const Bound& a, const Bound& b) {
  return {.step_time = std::max(a.step_time, b.step_time),
          .computing = std::max(a.computing, b.computing),
          .memory = std::max(a.memory, b.memory),
          .needed = std::max(a.needed, b.needed),
          .fits = a.fits && b.fits,
          .fits_host = a.fits_host && b.fits_host,
          .fit_probability = std::min(a.fit_probability, b.fit_probability),
          .over = std::max(a.over, b.over)};
}

template <typename Owner>
Owner& OwnOfThread() {
  thread_local Owner owner;
  return owner;
}

// Uses the thread's own object. It is recreated if work was stopped while filling its caches.
template <typename Owner, typename Use>
auto WithOwn(const Use& use) {
  Owner& owner = OwnOfThread<Owner>();
  try {
    return use(owner);
  } catch (const Stopped&) {
    owner = Owner();
    throw;
  }
}

Result<Bound> FirstBound(const Scenario& scenario) {
  return WithOwn<Bounds>([&](Bounds& bounds) { return bounds.First(scenario); });
}

Screened FirstLook(const Scenario& scenario) {
  Screened screened{.facts = FactsOf(scenario)};
  const auto bound = FirstBound(scenario);
  if (!bound) return Refused(bound.error());
  screened.bound = Completed(scenario, *bound);
  return screened;
}

// The head of a family has the settings that its plans share, and defaults for the others, which do
// not affect the first bound. If rules refuse the defaults, the bound of a legal member is used
// without its memory, because other members may need less.
Screened LookAtFamily(const PlanSource& source, std::size_t family) {
  const std::int64_t first = source.families[family];
  const LoadedPlan head = source.load_family(first);
  if (head.scenario != nullptr) return FirstLook(*head.scenario);
  if (!head.by_inner) return Refused(head);
  const bool last = family + 1 == source.families.size();
  const std::int64_t end = last ? source.plans : source.families[family + 1];
  for (std::int64_t plan = first; plan < end; ++plan) {
    const LoadedPlan loaded = source.load(plan);
    if (loaded.scenario == nullptr) continue;
    Screened screened = FirstLook(*loaded.scenario);
    if (!screened.illegal_code.empty()) continue;
    screened.bound = {.step_time = screened.bound.step_time,
                      .joules = screened.bound.joules,
                      .over = Bytes(0) - screened.facts.capacity};
    return screened;
  }
  return Refused(source.load(first));
}

Screened Look(const PlanSource& source, std::int64_t plan, bool closely) {
  const LoadedPlan loaded = source.load(plan);
  if (loaded.scenario == nullptr) return Refused(loaded);
  const Scenario& scenario = *loaded.scenario;
  Screened screened{.facts = FactsOf(scenario)};
  screened.same_as_another = (PutsNothingOff(scenario.plan) && source.has_twin(plan)) ||
                             (plan != 0 && source.same_as_own && source.same_as_own(scenario));
  if (screened.same_as_another) return screened;
  if (!closely) return FirstLook(scenario);
  auto found = WithOwn<Bounds>(
      [&](Bounds& bounds) { return bounds.LookAtProgram(scenario, source.kind != nullptr); });
  if (!found) return Refused(found.error());
  if (const auto first = FirstBound(scenario)) found->bound = Sharper(found->bound, *first);
  screened.bound = Completed(scenario, found->bound);
  if (!found->digest.empty()) {
    screened.program = ProgramId(scenario, source.kind(plan), found->digest);
  }
  return screened;
}

Outcome Simulate(const PlanSource& source, std::int64_t plan) {
  Outcome outcome;
  const LoadedPlan loaded = source.load(plan);
  if (loaded.scenario == nullptr) {
    outcome.illegal_message = loaded.message;
    return outcome;
  }
  const auto forecast = WithOwn<forecast::Forecaster>([&](forecast::Forecaster& forecaster) {
    auto row = forecaster.Evaluate(
        *loaded.scenario, source.energy ? forecast::Detail::kTimes : forecast::Detail::kStep);
    forecaster.GiveBack();
    return row;
  });
  if (!forecast) {
    outcome.illegal_message = forecast.error().front().message;
    return outcome;
  }
  return OutcomeOf(*loaded.scenario, *forecast);
}

}  // namespace

PlanFacts FactsOf(const Scenario& scenario) {
  const plan::Training& training = scenario.plan.training;
  const plan::Parallelism& parallelism = scenario.plan.parallelism;
  return {
      .gpus = scenario.cluster->devices(),
      .tokens = training.global_batch_size * training.sequence_length,
      .capacity = scenario.cluster->device_memory(),
      .passes = training.gradient_accumulation * parallelism.pipeline * parallelism.virtual_stages,
      .idle_watts = forecast::PowerOf(scenario).waiting};
}

Outcome OutcomeOf(const Scenario& scenario, const forecast::Forecast& forecast) {
  const forecast::MemoryForecast& memory = forecast.memory;
  Outcome outcome{.step_time = forecast.step_time,
                  .joules = forecast::StepEnergy(forecast::PowerOf(scenario), forecast),
                  .tokens_per_second_per_gpu = forecast.tokens_per_second_per_gpu,
                  .memory = memory.peak,
                  .reserved = memory.reserved,
                  .outside = memory.outside,
                  .fits = memory.fits,
                  .fits_host = memory.fits_host(),
                  .verdict = memory.verdict(),
                  .fit_probability = memory.fit_probability,
                  .over = memory.reserved + memory.outside - memory.capacity,
                  .flushes = static_cast<int>(memory.allocator_flushes)};
  if (!memory.fits) {
    outcome.over = std::max(
        {outcome.over, memory.host - memory.host_capacity, memory.drives - memory.drives_capacity});
  }
  return outcome;
}

SearchProblem ProblemOf(const PlanSource& source) {
  return {.plans = source.plans,
          .families = source.families,
          .screen_family = [&source](std::size_t family) { return LookAtFamily(source, family); },
          .screen = [&source](std::int64_t plan) { return Look(source, plan, false); },
          .sharpen = [&source](std::int64_t plan) { return Look(source, plan, true); },
          .simulate = [&source](std::int64_t plan) { return Simulate(source, plan); }};
}

}  // namespace stepcast::planner
