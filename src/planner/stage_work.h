#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/cost/price.h"
#include "src/lowering/parameter_share.h"
#include "src/model/layer.h"
#include "src/scenario/scenario.h"

// Lower bounds of a pipeline stage's work (bounds.h): the time and memory of one micro-batch, by
// layer and by chunk, and the memory of states.
namespace stepcast::planner {

// The time and memory of one layer's work.
struct LayerFigures {
  // `kernels`: the sum of the uncontended times of the pass's kernels. `span`: `kernels` plus the
  // time of collectives for which kernels wait. `trailing`: the time from the last kernel until the
  // next layer's inputs are complete.
  struct Pass {
    Time kernels, span, trailing;
  };
  Pass forward, backward;                // including recomputation
  Time backward_input, backward_weight;  // kernels of the two parts of a split backward
  Bytes saved, recomputed, transient;
  bool continues_checkpoint = false;
};

// Returns the time and memory of each element of `works`. `works` is the result of model::BuildWork
// for the scenario. Errors: the errors of cost::Price.
Result<std::vector<LayerFigures>> LayerFiguresOf(const scenario::Scenario& scenario,
                                                 const std::vector<model::LayerWork>& works,
                                                 cost::PriceCache& prices);

// The work of one micro-batch in one chunk of a pipeline's layers.
struct ChunkWork {
  Time forward, backward;
  Time backward_input, backward_weight;  // the two parts of a split backward
  Time kernels;                          // sum of the kernels of both passes, without collectives
  Bytes saved;                           // bytes kept from forward to backward
  // The peak of live bytes in the chunk's backward: recomputed values, temporaries, and the saved
  // values of the layers whose backward has not finished.
  Bytes backward_peak;
  friend bool operator==(const ChunkWork&, const ChunkWork&) = default;
};

// The times that WorkOfChunk includes in a chunk's passes.
enum class PassTimes : std::uint8_t {
  kKernels,  // uncontended kernels, one after the other
  kSpans,    // uncontended kernels and the collectives for which they wait
};

// Returns the work of a chunk of consecutive layers. `of_layers` has each layer's index in
// `figures`. `offloads`: blocks keep their saved values on the host
// (plan::Training::activation_offload).
ChunkWork WorkOfChunk(std::span<const LayerFigures> figures, std::span<const model::Layer> layers,
                      std::span<const int> of_layers, PassTimes counted, bool offloads);

// Lower bounds of a rank's memory by purpose: states, gradients and activations.

// The part of the model's tensors that a rank has.
struct StageParameters {
  lowering::GroupElements trained{};
  Bytes frozen{};
  friend bool operator==(const StageParameters&, const StageParameters&) = default;
};

// Returns whether a stage's full gradients and the step's peak activations are alive at the same
// time. True for FSDP2, which keeps full gradients until the reduction after the last micro-batch,
// if there are enough micro-batches for the peak of activations to recur (named_schedules_test).
bool KeepsGatheredGradients(const scenario::Scenario& scenario);

// Returns the states plus the larger of gradients and activations, in bytes, or plus both if
// `keeps_gradients`.
Bytes MemoryBeside(const scenario::Scenario& scenario, const StageParameters& stage,
                   Bytes activations, bool keeps_gradients);

}  // namespace stepcast::planner
