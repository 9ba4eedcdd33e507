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

// Lower bounds of a pipeline stage's work: the time and memory of one micro-batch, by layer and by
// chunk, and the memory of states. All bounds of plans use them (bounds.h).
namespace stepcast::planner {

// Time and memory of one layer's work.
struct LayerFigures {
  // `kernels`: the sum of the uncontended times of the pass's kernels. `span`: at least `kernels`,
  // with the collectives that kernels wait for. `trailing`: time from the last kernel until the
  // next layer's inputs are complete.
  struct Pass {
    Time kernels, span, trailing;
  };
  Pass forward, backward;                // recomputation included
  Time backward_input, backward_weight;  // kernels of the two parts of a split backward
  Bytes saved, recomputed, transient;
  bool continues_checkpoint = false;
};

// Returns the figures of each layer work. `works` is the result of model::BuildWork for the
// scenario. Errors: those of cost::Price.
Result<std::vector<LayerFigures>> LayerFiguresOf(const scenario::Scenario& scenario,
                                                 const std::vector<model::LayerWork>& works,
                                                 cost::PriceCache& prices);

// The work of one micro-batch in one chunk of a pipeline's layers.
struct ChunkWork {
  Time forward, backward;
  Time backward_input, backward_weight;  // the two parts of a split backward
  Time kernels;                          // of both passes, without collectives
  Bytes saved;                           // bytes kept from forward to backward
  // Peak of live bytes during the chunk's backward: saved values of the layers up to the one whose
  // backward runs, recomputed values, temporaries.
  Bytes backward_peak;
  friend bool operator==(const ChunkWork&, const ChunkWork&) = default;
};

// The times of a chunk's passes that WorkOfChunk counts.
enum class PassTimes : std::uint8_t {
  kKernels,  // uncontended kernels, one after the other
  kSpans,    // and the collectives that kernels wait for
};

// Returns the work of a chunk of consecutive layers. `of_layers`: the index in `figures` of each
// layer. `offloads`: blocks keep their saved values on the host
// (plan::Training::activation_offload).
ChunkWork WorkOfChunk(std::span<const LayerFigures> figures, std::span<const model::Layer> layers,
                      std::span<const int> of_layers, PassTimes counted, bool offloads);

// Lower bounds of a rank's memory by purpose: states, gradients, activations.

// A rank's part of the model's tensors.
struct StageParameters {
  lowering::GroupElements trained{};
  Bytes frozen{};
  friend bool operator==(const StageParameters&, const StageParameters&) = default;
};

// Whether a pipeline stage's whole gradients and the step's peak activations are alive at the same
// time. FSDP2 keeps a stage's gathered gradients until they are reduced after the last micro-batch.
// The peak of activations recurs after each chunk has run a backward if the schedule then still
// alternates forwards and backwards, which requires enough micro-batches (named_schedules_test).
bool KeepsGatheredGradients(const scenario::Scenario& scenario);

// Returns the states plus the larger of gradients and activations, in bytes; with
// `keeps_gradients`, the states plus both.
Bytes MemoryBeside(const scenario::Scenario& scenario, const StageParameters& stage,
                   Bytes activations, bool keeps_gradients);

}  // namespace stepcast::planner
