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
#include "src/parallel/schedule_check.h"
#include "src/program/program.h"
#include "src/scenario/scenario.h"

namespace stepcast::planner {

// Lower bounds of a plan's step time and memory, for a small part of the cost of its forecast. Both
// are proved from the simulator's rules, not fitted to its results (docs/planning.md has the
// proofs), and tests compare them with it over random plans of every framework.

// Bounds of a pipeline, from what its chunks do by themselves and the order in which stages run
// them.

// One micro-batch through one chunk.
struct ChunkWork {
  parallel::PassDurations passes;  // picoseconds: its kernels, each alone, one after the other
  Bytes saved;                     // from forward to backward
  // The most that is alive at once while its backward runs: what layers saved up to the one whose
  // backward runs, what has been computed again, temporaries.
  Bytes backward;
  friend bool operator==(const ChunkWork&, const ChunkWork&) = default;
};

// Lower bound of the step time. The stage of the first chunk begins a step when it has ended the
// one before; the others get the step's micro-batches from there, and its last backward waits for
// theirs. Messages, collectives, hosts and contention only add to it.
Time PipelineStepTime(const parallel::PipelineSchedule& schedule,
                      std::span<const ChunkWork> chunks);

// By stage, lower bounds of the activations that are alive at once: a pass begins when those before
// it in the stage's order have been issued, and what micro-batches on their way have saved is
// there.
std::vector<Bytes> ActivationsInFlight(const parallel::PipelineSchedule& schedule,
                                       std::span<const ChunkWork> chunks);

struct Bound {
  Time step_time{};            // the forecast's is no less
  Bytes memory{};              // nor its peak
  Bytes needed{};              // nor the memory it reserves and has outside of the allocator
  bool fits = true;            // false: its forecast does not fit
  bool fits_host = true;       // of the hosts
  double fit_probability = 1;  // its forecast's is no higher
  // It needs at least so much more than there is; negative: at most so much stays free.
  Bytes over{};
};

// Caches what plans share; not to be used by two threads at once.
class Bounds {
 public:
  Bounds();
  ~Bounds();
  Bounds(Bounds&&) noexcept;
  Bounds& operator=(Bounds&&) noexcept;

  // From what plans share: the kernels of a micro-batch, priced once for all plans that have them,
  // and the textbook's states. Microseconds. Errors: as cost::Price, of kernels alone.
  //   time    kernels of the model run one after the other on the compute stream, each no faster
  //           than alone
  //   memory  states that are never released, and beside them the activations that are alive at
  //           once, or full gradients where the stage keeps them
  Result<Bound> OfKernels(const scenario::Scenario& scenario);

  // Follows from the plan's own step program with its prices, which is lowered and priced, but not
  // simulated. Where the plan has several stages, it follows from their schedule, the time that
  // passes take by themselves (bounds.h) and the programs of stages. It costs a tenth to a
  // quarter of a forecast, and is never below OfKernels. Errors: as cost::Price.
  //   time    the program where nothing gets in anything's way: every operation takes what it takes
  //           alone, so that only streams, communicators, events and the host hold it up; and the
  //           compute stream with the least that everything beside it must take away from its
  //           kernels
  //   memory  what is handed out in host order, released as early as can be
  Result<Bound> OfProgram(const scenario::Scenario& scenario) {
    auto found = LookAtProgram(scenario, false);
    if (!found) return tl::unexpected(std::move(found.error()));
    return found->bound;
  }

  struct OfItsProgram {
    Bound bound;
    // 128 bits that are equal for programs that run alike: the same operations by stream, duration
    // and demand, the same buffers and events in the same order; and as good as never equal for two
    // that do not. Empty if not asked for, or if more than that decides (cluster.network is not
    // analytic).
    std::string digest;
  };
  Result<OfItsProgram> LookAtProgram(const scenario::Scenario& scenario, bool digest);

 private:
  // Raises the bound `bound` of a plan with several stages by what its schedule and the programs of
  // its stages say. `digest`: as in LookAtProgram.
  Result<OfItsProgram> OfPipeline(const scenario::Scenario& scenario, Bound bound, bool digest);

  struct Kept;
  std::unique_ptr<Kept> kept_;
};

// The first bounds of a plan (docs/planning.md): microseconds each, from figures that plans share.
// What layers take and keep follows from the shape of a micro-batch, and is worked out once for
// each; which of them a pipeline's stages have, and how many micro-batches are on their way, is
// arithmetic. Not to be used by two threads at once.
class FirstBounds {
 public:
  FirstBounds();
  ~FirstBounds();
  FirstBounds(FirstBounds&&) noexcept;
  FirstBounds& operator=(FirstBounds&&) noexcept;

  // Of settings of data parallelism it takes notice of the framework, the ZeRO stage, the ranks
  // that share states and of what is kept on the host. Errors: as cost::Price, of kernels and
  // tensor parallelism's collectives alone.
  //   time    the passes of each stage's micro-batches, one after the other, behind those before
  //           them that bring it its first micro-batch, and before those that take its last one
  //           back; a pass takes no less than its kernels alone and the collectives that they wait
  //           for
  //   memory  states that are never released, and beside them the activations that are alive at
  //           once, or full gradients where the stage keeps them
  Result<Bound> Of(const scenario::Scenario& scenario);

  // Lower bounds of the time that one micro-batch takes through one chunk of a pipeline: its
  // kernels by themselves, and the collectives inside of layers that they wait for.
  struct Passes {
    Time forward, backward;
  };
  // Gives the passes of all chunks, in the order of the layers. The list is empty where passes do
  // not run one after the other: where the backward comes in two parts, or two passes take turns.
  // Errors: as Of.
  Result<std::vector<Passes>> PassesOf(const scenario::Scenario& scenario);

 private:
  class Kept;
  std::unique_ptr<Kept> kept_;
};

// Step programs of many micro-batches without writing them out.

// Instructions [first, last) of the step stand for `more` repetitions of themselves, behind
// themselves. They are preceded by another repetition. What waits in them for an event that one of
// the two records waits in each repetition for the record that is as far before it; which events
// these are may differ.
struct Repeated {
  std::size_t first = 0, last = 0;
  std::int64_t more = 0;
};

// By instruction of the step: the one that records what it waits for, as far as that is in the same
// step; kNoSource for none, and for whatever does not wait.
inline constexpr std::size_t kNoSource = static_cast<std::size_t>(-1);
std::vector<std::size_t> SourcesOfWaits(const program::Program& program);

struct ShortProgram {
  program::Program program;
  Repeated repeated;
};

// The programs of lowering::Lower for the scenario, written with fewer micro-batches where those in
// the middle of a step repeat one another: the instructions are the same one after the other, and
// so are their tables, but events, what they use (Instruction::first_use), labels and micro-batch
// numbers; what waits waits for the same records. The middle of the shorter program is looked at;
// where it does not repeat, and where the step is short, the program is lowered as a whole.
ShortProgram LowerShort(const scenario::Scenario& scenario);

// Bounds of a step program's simulation, in one pass over its instructions. A repeated part is
// walked until an iteration repeats the one before, and then counted as often as it runs.

// Lower bound of the step time: every operation takes its uncontended duration. No operation takes
// less, and streams, communicators, events and the host are sums and maxima of such times, so a
// longer operation makes none start earlier, and no simulation repeats its steps faster.
// `counts_collectives`: false where the network is simulated, for which prices of collectives are
// no bound; they then take no time.
Time UncontendedStepTime(const program::Program& program, const cost::Prices& prices, bool barrier,
                         bool counts_collectives, const Repeated& repeated = {});

// Lower bound of the time from the end of a step's last backward kernel to the beginning of the
// next step's first forward kernel. It is the longest chain of operations that are issued between
// the two, each of which waits for the one before it; the first waits for that backward kernel, and
// the forward kernel waits for the last. `counts_collectives`: as above.
Time TimeBetweenSteps(const program::Program& program, const cost::Prices& prices,
                      bool counts_collectives);

// Lower bound of the compute stream's time, one operation after the other, with the least
// contention. An operation that needs all of a resource (its share is 1) is slowed by the shares of
// concurrent operations on that resource. A communicator or stream runs one operation at a time, so
// it avoids such operations only while it runs others or is idle, and that time is limited.
Time ContendedComputeTime(const program::Program& program, const cost::Prices& prices,
                          bool counts_collectives, const Repeated& repeated = {});

// The peak of allocated memory with every free taking effect as soon as it is issued
// (memory/deferred_frees.h): no run has a lower one.
Bytes PeakInHostOrder(const program::Program& program, const Repeated& repeated = {});

// Lower bounds of the memory of a rank by what it is for: states, gradients, activations.

// What a rank has of the model's tensors.
struct StageParameters {
  lowering::GroupElements trained{};
  Bytes frozen{};
};

// Whether the whole gradients of a pipeline stage and the most activations of the step are alive at
// the same time. FSDP2 keeps a stage's gradients gathered until they are reduced behind the last
// micro-batch. The most activations come again after each chunk has run a backward if the schedule
// then still runs forwards and backwards by turns, for which there must be enough micro-batches
// (named_schedules_test).
bool KeepsGatheredGradients(const scenario::Scenario& scenario);

// States, and beside them gradients, activations, or, where gradients are kept while activations
// are alive, both.
Bytes MemoryBeside(const scenario::Scenario& scenario, const StageParameters& stage,
                   Bytes activations, bool keeps_gradients);

// Whether so much at the peak, with `communicators`, can fit.
void SayWhetherItFits(const scenario::Scenario& scenario, int communicators, Bound& bound);

}  // namespace stepcast::planner
