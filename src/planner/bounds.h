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

// Lower bounds of a plan's step time and memory, which cost a small fraction of a forecast. They
// are proved from the simulator's rules, not fitted to its results (docs/planning.md contains the
// proofs). Tests compare them with the simulator over random plans of every framework.

// Bounds for a pipeline, computed from the work of its chunks and the order in which stages run
// passes.

// Returns a lower bound of the step time. In each step, the stage of the first chunk begins after
// its previous step. Other stages get micro-batches from this stage. The last backward of this
// stage waits for the last backward of the other stages. Messages, collectives, hosts and
// contention only add time.
Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks);

// Returns a lower bound of the live activations of each stage. When a pass begins, the stage's
// earlier passes have been issued, and the values that micro-batches in flight have saved are
// alive.
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
  // A lower bound of the memory that is needed beyond the capacity. If it is negative, at most this
  // much memory stays free.
  Bytes over{};
};

// Computes bounds and caches the data that plans share. Not thread-safe.
class Bounds {
 public:
  Bounds();
  ~Bounds();
  Bounds(Bounds&&) noexcept;
  Bounds& operator=(Bounds&&) noexcept;

  // Returns the first bound of a plan (docs/planning.md), in microseconds of computing time, from
  // data that plans share. The time and memory of layers depend on the shape of a micro-batch and
  // are computed once per shape. The layers of each stage and the number of micro-batches in flight
  // follow by arithmetic. Only these settings of data parallelism are used: the framework, the ZeRO
  // stage, the ranks that share states, and offload. Errors: those of cost::Price, for kernels and
  // tensor-parallel collectives only.
  //   time: the passes of each stage's micro-batches, one after the other, after the passes that
  //     bring its first micro-batch and before those that return its last. A pass takes at least
  //     its uncontended kernels and the collectives for which they wait.
  //   memory: states that are never released, plus the activations that are alive at once, or full
  //     gradients if the stage keeps them.
  Result<Bound> First(const scenario::Scenario& scenario);

  // Returns a bound from the plan's own step program and its prices. The program is lowered and
  // priced but not simulated. For several stages, the bound follows from their schedule, the
  // uncontended time of passes, and the stages' programs. Costs a tenth to a quarter of a forecast.
  // Errors: those of cost::Price.
  //   time: the larger of two. The first is the program without contention, in which every
  //     operation takes its uncontended time and waits only for streams, communicators, events and
  //     the host. The second is the compute stream with the least slowdown that concurrent
  //     operations must cause.
  //   memory: allocations in host order, released as early as possible.
  Result<Bound> OfProgram(const scenario::Scenario& scenario) {
    auto found = LookAtProgram(scenario, false);
    if (!found) return tl::unexpected(std::move(found.error()));
    return found->bound;
  }

  struct OfItsProgram {
    Bound bound;
    // A 128-bit digest that is equal for programs that run alike. These programs have the same
    // operations by stream, duration and demand, and the same buffers and events in the same order.
    // Other programs practically never have the same digest. Empty if not requested, or if the
    // result also depends on other data (cluster.network is not analytic).
    std::string digest;
  };
  Result<OfItsProgram> LookAtProgram(const scenario::Scenario& scenario, bool digest);

 private:
  // Returns the bound of a plan with several stages, from its schedule and the stages' programs.
  // `digest` is as in LookAtProgram.
  Result<OfItsProgram> OfPipeline(const scenario::Scenario& scenario, bool digest);

  // Lower bounds of the time of one micro-batch in one chunk of a pipeline. A bound covers the
  // chunk's uncontended kernels, and the collectives inside layers for which they wait.
  struct Passes {
    Time forward, backward;
  };
  // Returns the passes of all chunks, in layer order. Empty if passes do not run one after the
  // other: because backward has two parts, or because two passes alternate. Errors: those of First.
  Result<std::vector<Passes>> PassesOf(const scenario::Scenario& scenario);
  cost::PriceCache& prices();

  class Kept;
  std::unique_ptr<Kept> kept_;
};

// Step programs of many micro-batches that are not written in full.

// Instructions [first, last) of the step are followed by `more` additional repetitions of
// themselves, which the program does not contain. Another repetition precedes `first`. In each
// repetition, a wait refers to the record at the same distance before the wait; the events may
// differ.
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
// step repeat, the programs have fewer micro-batches. They repeat if two conditions hold. The
// instructions and their table entries must be the same, except events, uses, labels and
// micro-batch numbers. Waits must refer to corresponding records. The middle of the shorter program
// is checked. If it does not repeat, or if the step is short, the whole program is lowered.
ShortProgram LowerShort(const scenario::Scenario& scenario);

// Bounds of a step program's simulation, in one pass over the program's instructions. A repeated
// part is processed until an iteration equals the previous one. That iteration then represents the
// remaining iterations.

// Returns a lower bound of the step time: every operation takes its uncontended duration, which is
// the shortest possible. The times of streams, communicators, events and the host are sums and
// maxima of such durations. A longer operation therefore never makes another operation start
// earlier. If the network is simulated, `counts_collectives` must be false: prices of collectives
// are then no bound, and collectives take no time.
Time UncontendedStepTime(const program::Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated = {});

// Returns a lower bound of the time between two steps. This time is from the end of a step's last
// backward kernel to the start of the next step's first forward kernel. The bound is the longest
// chain of dependent operations that are issued between the two kernels. The chain starts after the
// backward kernel, and the forward kernel waits for its end. `counts_collectives` is as for
// UncontendedStepTime.
Time TimeBetweenSteps(const program::Program& program, const cost::Prices& prices,
                      bool counts_collectives);

// Returns a lower bound of the compute stream's time, one operation after the other, with the least
// contention. An operation that needs all of a resource (its share is 1) is slowed by the shares of
// concurrent operations on that resource. Each communicator and each other stream runs one
// operation at a time. This operation avoids slowing such operations only while the compute stream
// is idle or runs other operations. That time is limited.
Time ContendedComputeTime(const program::Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated = {});

// Returns the peak of allocated memory, in bytes, if every free takes effect when it is issued
// (memory/deferred_frees.h). No run has a lower peak.
Bytes PeakInHostOrder(const program::Program& program, const Repeated& repeated = {});

// Sets whether the bound's memory fits if the rank has `communicators` communicators.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
