#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/scenario/scenario.h"

// Lower bounds of a plan's step time and memory, for a small part of the cost of its forecast. Both
// are proved from the simulator's rules, not fitted to its results (docs/planning.md has the
// proofs), and tests compare them with it over random plans of every framework.
namespace stepcast::planner {

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
  // passes take by themselves (pipeline_bounds.h) and the programs of stages. It costs a tenth to a
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

}  // namespace stepcast::planner
