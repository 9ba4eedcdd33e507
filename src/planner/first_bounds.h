#pragma once

#include <memory>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/planner/bounds.h"
#include "src/scenario/scenario.h"

namespace stepcast::planner {

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

}  // namespace stepcast::planner
