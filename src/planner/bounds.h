#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/expected.h"
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/lowering/parameter_share.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/planner/stage_work.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::planner {

// Lower bounds of a plan's step time and memory, which are much cheaper than a forecast.
// docs/planning.md proves the bounds from the simulator's rules. Tests compare the bounds with the
// simulator over random plans of every framework.

// Bounds for a pipeline, from the work of its chunks and the order in which stages run passes.

// Returns a lower bound of the step time: the time of the stage with the first chunk. All other
// stages receive micro-batches from this stage. The last backward of this stage waits for the last
// backward of all other stages. Messages, collectives, hosts and contention only add time.
Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks);

// Returns a lower bound of the live activations of each stage, in bytes: the saved values of
// micro-batches in flight at the start of each pass.
std::vector<Bytes> ActivationsInFlight(const parallel::PipelineSchedule& schedule,
                                       std::span<const ChunkWork> chunks);

struct Bound {
  Time step_time{};  // lower bound of the forecast's step time
  // A lower bound of the mean time per device in forward and backward kernels. Set only by First.
  Time computing{};
  double joules = 0;           // lower bound of Outcome::joules; set by SearchProblem
  Bytes memory{};              // lower bound of the forecast's peak
  Bytes needed{};              // lower bound of the forecast's reserved memory plus its memory
                               // outside the allocator
  bool fits = true;            // false: the plan certainly does not fit
  bool fits_host = true;       // false: the plan certainly does not fit in host memory
  double fit_probability = 1;  // upper bound of the forecast's probability
  // A lower bound of the memory that the plan needs beyond the capacity. Negative: free memory.
  Bytes over{};
};

// Computes bounds and caches the data that plans share. Not thread-safe.
class Bounds {
 public:
  Bounds();
  ~Bounds();
  Bounds(Bounds&&) noexcept;
  Bounds& operator=(Bounds&&) noexcept;

  // Computes the first bound of a plan (docs/planning.md) within microseconds, because plans share
  // most data. Layers are computed once per shape of a micro-batch. The bound depends only on these
  // data-parallel settings: framework, ZeRO stage, ranks that share states, and offload. Errors:
  // the errors of cost::Price for kernels and tensor-parallel collectives.
  //   time: the maximum over all stages of the time of all passes of the stage's micro-batches,
  //     plus the passes before the first micro-batch arrives and after the last one leaves. A pass
  //     takes the time of its uncontended kernels and of the collectives for which kernels wait.
  //   memory: states that are never released, plus the activations that are alive at once, or full
  //     gradients if the stage keeps them.
  Result<Bound> First(const scenario::Scenario& scenario);

  // Returns a bound from the plan's own step program, which is lowered and priced but not
  // simulated. For several stages, the bound uses their schedule, the uncontended time of passes,
  // and the stages' programs. Takes 10 to 25 % of a forecast's time. Errors: the errors of
  // cost::Price.
  //   time: the larger of UncontendedStepTime (the program without contention) and
  //     ContendedComputeTime (the compute stream with the least contention).
  //   memory: allocations in host order, released as early as possible.
  Result<Bound> OfProgram(const scenario::Scenario& scenario) {
    STEPCAST_TAKE(auto found, LookAtProgram(scenario, false));
    return found.bound;
  }

  struct OfItsProgram {
    Bound bound;
    // A 128-bit digest of all data that affects the program's simulation: operations by stream,
    // duration and demand, buffers and events in order. Programs with equal digests have equal
    // results. The digest is empty if it is not requested, or if cluster.network is not analytic.
    std::string digest;
  };
  Result<OfItsProgram> LookAtProgram(const scenario::Scenario& scenario, bool digest);

 private:
  // Returns the bound of a plan with several stages, from its schedule and the stages' programs.
  // `digest` is as in LookAtProgram.
  Result<OfItsProgram> OfPipeline(const scenario::Scenario& scenario, bool digest);

  // Lower bounds of one micro-batch's time in one chunk of a pipeline: uncontended kernels, and the
  // collectives inside layers for which kernels wait.
  struct Passes {
    Time forward, backward;
  };
  // Returns the passes of all chunks, in layer order. The result is empty if backward has two parts
  // or if two passes alternate. Errors: the errors of First.
  Result<std::vector<Passes>> PassesOf(const scenario::Scenario& scenario);
  cost::PriceCache& prices();

  class Kept;
  std::unique_ptr<Kept> kept_;
};

// Step programs of many micro-batches, shortened to a few repetitions of the periodic part.

// The full step repeats the instructions [first, last) `more` more times. The program contains the
// repeated part twice; the first copy ends at `first`. In each repetition, a wait refers to the
// record at the same distance before the wait; the events may differ.
struct Repeated {
  std::size_t first = 0, last = 0;
  std::int64_t more = 0;
};

// Returns, for each instruction of the step, the index of the event record for which the
// instruction waits. kNoSource: the same step has no such record.
inline constexpr std::size_t kNoSource = static_cast<std::size_t>(-1);
std::vector<std::size_t> SourcesOfWaits(const program::Program& program);

struct ShortProgram {
  program::Program program;
  Repeated repeated;
};

// Returns the programs of lowering::Lower for the scenario, with fewer micro-batches if the middle
// of a step repeats. Repetitions must have equal instructions and table entries, except events,
// uses, labels and micro-batch numbers. Their waits must refer to corresponding records. If
// repetitions differ, or if the step is short, returns the full program.
ShortProgram LowerShort(const scenario::Scenario& scenario);

// Bounds of a step program's simulation, computed in one pass over its instructions. A repeated
// part is processed until two iterations are equal; the last iteration represents the rest.

// Returns a lower bound of the step time, in which every operation has its uncontended duration.
// The bound is valid because a longer operation never makes another operation start earlier.
// `counts_collectives` must be false if the network is simulated; collectives then take no time,
// because their prices are not a lower bound.
Time UncontendedStepTime(const program::Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated = {});

// Returns a lower bound of the time from the end of a step's last backward kernel to the start of
// the next step's first forward kernel. The bound is the longest chain of dependent operations
// between these kernels. `counts_collectives` is as for UncontendedStepTime.
Time TimeBetweenSteps(const program::Program& program, const cost::Prices& prices,
                      bool counts_collectives);

// Returns a lower bound of the compute stream's time with the least possible contention. An
// operation that needs a full resource (its share is 1) is slowed by concurrent operations on the
// resource, such as communication. Operations of other streams and of communicators cause this
// slowdown, except while the compute stream is idle or runs other operations. The time without
// slowdown is limited.
Time ContendedComputeTime(const program::Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated = {});

// Returns the peak of allocated memory, in bytes, if every free takes effect when it is issued
// (memory/deferred_frees.h). No run has a lower peak.
Bytes PeakInHostOrder(const program::Program& program, const Repeated& repeated = {});

// Sets whether the bound fits in memory on a rank with `communicators` communicators.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
