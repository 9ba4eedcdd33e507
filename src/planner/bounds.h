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

// Lower bounds of a plan's step time and memory. The computation of a bound takes a small fraction
// of a forecast's time. docs/planning.md proves the bounds from the simulator's rules. Tests
// compare them with the simulator over random plans of every framework.

// Bounds for a pipeline, computed from the work of its chunks and the order in which stages run
// passes.

// Returns a lower bound of the step time. The bound follows from the stage of the first chunk,
// which begins a step after its previous step. All other stages receive micro-batches from this
// stage, and its last backward waits for their last backward. Messages, collectives, hosts and
// contention only add time.
Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks);

// Returns a lower bound of the live activations of each stage. When a pass begins, the stage's
// earlier passes have been issued, and the saved values of micro-batches in flight are alive.
std::vector<Bytes> ActivationsInFlight(const parallel::PipelineSchedule& schedule,
                                       std::span<const ChunkWork> chunks);

struct Bound {
  Time step_time{};  // lower bound of the forecast's step time
  // A lower bound of the time of forward and backward kernels on a device, as the mean over all
  // ranks. Only first bounds have this member.
  Time computing{};
  double joules = 0;           // lower bound of Outcome::joules; set by SearchProblem
  Bytes memory{};              // lower bound of the forecast's peak
  Bytes needed{};              // lower bound of the forecast's reserved memory plus its memory
                               // outside the allocator
  bool fits = true;            // false: the plan certainly does not fit
  bool fits_host = true;       // the same for host memory
  double fit_probability = 1;  // upper bound of the forecast's probability
  // A lower bound of the memory that is needed beyond the capacity. If it is negative, its absolute
  // value is an upper bound of the free memory.
  Bytes over{};
};

// Computes bounds and caches the data that plans share. Not thread-safe.
class Bounds {
 public:
  Bounds();
  ~Bounds();
  Bounds(Bounds&&) noexcept;
  Bounds& operator=(Bounds&&) noexcept;

  // Returns the first bound of a plan (docs/planning.md). The computation takes microseconds,
  // because plans share most data. The time and memory of layers depend on the shape of a
  // micro-batch and are computed once per shape. The bound depends only on these settings of data
  // parallelism: the framework, the ZeRO stage, the ranks that share states, and offload. Errors:
  // those of cost::Price for kernels and tensor-parallel collectives.
  //   time: for each stage, the time of all passes of its micro-batches, plus the passes before
  //     its first micro-batch arrives and after its last micro-batch leaves; the maximum over all
  //     stages. A pass takes at least the time of its uncontended kernels and of the collectives
  //     for which they wait.
  //   memory: states that are never released, plus the activations that are alive at once, or full
  //     gradients if the stage keeps them.
  Result<Bound> First(const scenario::Scenario& scenario);

  // Returns a bound from the plan's own step program and its prices. The program is lowered and
  // priced but not simulated. For several stages, the bound follows from their schedule, the
  // uncontended time of passes, and the stages' programs. The computation takes a tenth to a
  // quarter of the time of a forecast. Errors: those of cost::Price.
  //   time: the larger of two bounds: the program without contention (UncontendedStepTime), and
  //     the compute stream with the least contention (ContendedComputeTime).
  //   memory: allocations in host order, released as early as possible.
  Result<Bound> OfProgram(const scenario::Scenario& scenario) {
    STEPCAST_TAKE(auto found, LookAtProgram(scenario, false));
    return found.bound;
  }

  struct OfItsProgram {
    Bound bound;
    // A 128-bit digest of the data that determines the program's simulation: operations by stream,
    // duration and demand, buffers and events in order. Programs with equal digests have equal
    // results; collisions are improbable. Empty if not requested, or if cluster.network is not
    // analytic.
    std::string digest;
  };
  Result<OfItsProgram> LookAtProgram(const scenario::Scenario& scenario, bool digest);

 private:
  // Returns the bound of a plan with several stages, from its schedule and the stages' programs.
  // `digest` is as in LookAtProgram.
  Result<OfItsProgram> OfPipeline(const scenario::Scenario& scenario, bool digest);

  // Lower bounds of the time of one micro-batch in one chunk of a pipeline. A bound includes the
  // chunk's uncontended kernels, and the collectives inside layers for which the kernels wait.
  struct Passes {
    Time forward, backward;
  };
  // Returns the passes of all chunks, in layer order. Empty if backward has two parts or if two
  // passes alternate. Errors: those of First.
  Result<std::vector<Passes>> PassesOf(const scenario::Scenario& scenario);
  cost::PriceCache& prices();

  class Kept;
  std::unique_ptr<Kept> kept_;
};

// Step programs of many micro-batches, shortened to a few repetitions of the periodic part.

// The full step repeats the instructions [first, last) `more` more times. The program contains them
// twice: the repetition that ends at `first` precedes them. In each repetition, a wait refers to
// the record at the same distance before the wait; the events may differ.
struct Repeated {
  std::size_t first = 0, last = 0;
  std::int64_t more = 0;
};

// Returns, for each instruction of the step, the index of the event record for which it waits, if
// the record is in the same step. Otherwise kNoSource.
inline constexpr std::size_t kNoSource = static_cast<std::size_t>(-1);
std::vector<std::size_t> SourcesOfWaits(const program::Program& program);

struct ShortProgram {
  program::Program program;
  Repeated repeated;
};

// Returns the programs of lowering::Lower for the scenario. If the micro-batches in the middle of a
// step repeat, the programs have fewer micro-batches. To repeat, instructions and their table
// entries must be equal, except events, uses, labels and micro-batch numbers, and waits must refer
// to corresponding records. The function checks the middle of the shorter program. If it does not
// repeat, or if the step is short, the function lowers the full program.
ShortProgram LowerShort(const scenario::Scenario& scenario);

// Bounds of a step program's simulation, in one pass over the program's instructions. A repeated
// part is processed until an iteration equals the previous iteration. This iteration then
// represents all remaining iterations.

// Returns a lower bound of the step time: every operation takes its uncontended duration, which is
// its minimum. The times of streams, communicators, events and the host are sums and maxima of
// these durations, so a longer operation never makes another operation start earlier. If the
// network is simulated, `counts_collectives` must be false: prices of collectives are then not a
// bound, and collectives take no time.
Time UncontendedStepTime(const program::Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated = {});

// Returns a lower bound of the time from the end of a step's last backward kernel to the start of
// the next step's first forward kernel. The bound is the longest chain of dependent operations that
// starts after the backward kernel and for whose end the forward kernel waits. `counts_collectives`
// is as for UncontendedStepTime.
Time TimeBetweenSteps(const program::Program& program, const cost::Prices& prices,
                      bool counts_collectives);

// Returns a lower bound of the compute stream's time with the least possible contention. An
// operation that needs a full resource (its share is 1) is slowed by concurrent operations that use
// the resource. Operations of communicators and other streams can avoid this slowdown only during
// the rest of the time, whose total is limited. The compute stream is then idle or runs other
// operations.
Time ContendedComputeTime(const program::Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated = {});

// Returns the peak of allocated memory, in bytes, if every free takes effect when it is issued
// (memory/deferred_frees.h). No run has a lower peak.
Bytes PeakInHostOrder(const program::Program& program, const Repeated& repeated = {});

// Sets whether the bound's memory fits on a rank with `communicators` communicators.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
