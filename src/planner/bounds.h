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
#include "src/base/time.h"
#include "src/cost/prices.h"
#include "src/lowering/parameter_share.h"
#include "src/parallel/pipeline_schedule.h"
#include "src/planner/stage_work.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::planner {

// Lower bounds of a plan's step time and memory, at a small fraction of the cost of a forecast.
// They are proved from the simulator's rules, not fitted to its results (docs/planning.md contains
// the proofs), and are tested against the simulator over random plans of every framework.

// Bounds for a pipeline, from the work of its chunks and the order in which stages run passes.

// Returns a lower bound of the step time. The stage of the first chunk begins each step after its
// previous step. Other stages get their micro-batches from this stage, whose last backward waits
// for theirs. Messages, collectives, hosts and contention only add time.
Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks);

// Returns a lower bound of the live activations of each stage. When a pass begins, the earlier
// passes of the stage have been issued, and the values saved by micro-batches in flight are alive.
std::vector<Bytes> ActivationsInFlight(const parallel::PipelineSchedule& schedule,
                                       std::span<const ChunkWork> chunks);

struct Bound {
  Time step_time{};  // at most the forecast's step time
  // At most the time in which a device runs kernels of forward and backward, as the mean over all
  // ranks. Only first bounds have it.
  Time computing{};
  double joules = 0;  // at most Outcome::joules; set by SearchProblem
  Bytes memory{};     // at most the forecast's peak
  Bytes needed{};     // at most the forecast's reserved memory plus memory outside the allocator
  bool fits = true;   // false: proves that the plan does not fit
  bool fits_host = true;       // the same for host memory
  double fit_probability = 1;  // at least the forecast's
  // A lower bound of the memory needed beyond the capacity. If negative, at most this much memory
  // stays free.
  Bytes over{};
};

// Computes bounds, and caches the data that plans share. Not thread-safe.
class Bounds {
 public:
  Bounds();
  ~Bounds();
  Bounds(Bounds&&) noexcept;
  Bounds& operator=(Bounds&&) noexcept;

  // The first bound of a plan (docs/planning.md), in microseconds, from data that plans share. Time
  // and memory of layers depend on the shape of a micro-batch and are computed once per shape. The
  // layers of each stage and the number of micro-batches in flight are arithmetic. Uses only these
  // settings of data parallelism: the framework, the ZeRO stage, the ranks that share states, and
  // offload. Errors: those of cost::Price, for kernels and tensor-parallel collectives only.
  //  time    the passes of each stage's micro-batches, one after the other, after the passes that
  //          bring its first micro-batch and before those that return its last; a pass takes at
  //          least its uncontended kernels and the collectives that they wait for
  //  memory  states that are never released, plus the activations that are alive at once, or full
  //          gradients if the stage keeps them
  Result<Bound> First(const scenario::Scenario& scenario);

  // A bound from the plan's own step program with its prices, which is lowered and priced but not
  // simulated. For several stages, the bound follows from their schedule, the uncontended time of
  // passes, and the stages' programs. Costs a tenth to a quarter of a forecast. Errors: those of
  // cost::Price.
  //  time    the larger of two: the program without contention, where every operation takes its
  //          uncontended time and waits only for streams, communicators, events and the host; and
  //          the compute stream with the least slowdown that concurrent operations must cause
  //  memory  allocations in host order, released as early as possible
  Result<Bound> OfProgram(const scenario::Scenario& scenario) {
    auto found = LookAtProgram(scenario, false);
    if (!found) return tl::unexpected(std::move(found.error()));
    return found->bound;
  }

  struct OfItsProgram {
    Bound bound;
    // A 128-bit digest that is equal for programs that run alike: the same operations by stream,
    // duration and demand, and the same buffers and events in the same order. Other programs
    // practically never have the same digest. Empty if not requested, or if the result also depends
    // on other data (cluster.network is not analytic).
    std::string digest;
  };
  Result<OfItsProgram> LookAtProgram(const scenario::Scenario& scenario, bool digest);

 private:
  // The bound of a plan with several stages, from its schedule and the stages' programs. `digest`:
  // as in LookAtProgram.
  Result<OfItsProgram> OfPipeline(const scenario::Scenario& scenario, bool digest);

  // Lower bounds of the time of one micro-batch in one chunk of a pipeline: its uncontended
  // kernels, and the collectives inside layers for which they wait.
  struct Passes {
    Time forward, backward;
  };
  // Returns the passes of all chunks, in layer order. Empty if passes do not run one after the
  // other, because the backward pass has two parts or two passes alternate. Errors: those of First.
  Result<std::vector<Passes>> PassesOf(const scenario::Scenario& scenario);
  cost::PriceCache& prices();

  class Kept;
  std::unique_ptr<Kept> kept_;
};

// Step programs of many micro-batches, without writing all of them.

// Instructions [first, last) of the step represent `more` additional repetitions of themselves,
// which follow them. Another repetition precedes `first`. In each repetition, a wait refers to the
// record at the same distance before the wait; the events may differ.
struct Repeated {
  std::size_t first = 0, last = 0;
  std::int64_t more = 0;
};

// Returns, for each instruction of the step, the event record for which it waits, if the record is
// in the same step; otherwise kNoSource.
inline constexpr std::size_t kNoSource = static_cast<std::size_t>(-1);
std::vector<std::size_t> SourcesOfWaits(const program::Program& program);

struct ShortProgram {
  program::Program program;
  Repeated repeated;
};

// The programs of lowering::Lower for the scenario, with fewer micro-batches if those in the middle
// of a step repeat. That means: the instructions and their table entries are the same, except
// events, uses (Instruction::first_use), labels and micro-batch numbers; and waits refer to
// corresponding records. The middle of the shorter program is checked. If it does not repeat, or
// the step is short, the whole program is lowered.
ShortProgram LowerShort(const scenario::Scenario& scenario);

// Bounds of a step program's simulation, in one pass over its instructions. A repeated part is
// processed until an iteration equals the previous one, which then represents the remaining ones.

// Returns a lower bound of the step time: every operation takes its uncontended duration, which is
// the shortest possible. Streams, communicators, events and the host are sums and maxima of such
// times, so a longer operation never makes another start earlier. `counts_collectives`: false if
// the network is simulated; prices of collectives are then no bound, and collectives take no time.
Time UncontendedStepTime(const program::Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated = {});

// Returns a lower bound of the time from the end of a step's last backward kernel to the start of
// the next step's first forward kernel. The bound is the longest chain of dependent operations,
// issued between the two kernels, that starts after the backward kernel and for which the forward
// kernel waits. `counts_collectives`: as for UncontendedStepTime.
Time TimeBetweenSteps(const program::Program& program, const cost::Prices& prices,
                      bool counts_collectives);

// Returns a lower bound of the compute stream's time, one operation after the other, with the least
// contention. An operation that needs all of a resource (its share is 1) is slowed by the shares of
// concurrent operations on that resource. A communicator or another stream runs one operation at a
// time. It can run without slowing such operations only while the compute stream is idle or runs
// other operations, and that time is limited.
Time ContendedComputeTime(const program::Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated = {});

// Returns the peak of allocated memory, in bytes, if every free takes effect when issued
// (memory/deferred_frees.h). No run has a lower peak.
Bytes PeakInHostOrder(const program::Program& program, const Repeated& repeated = {});

// Sets whether the bound's memory fits, given the number of communicators.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
