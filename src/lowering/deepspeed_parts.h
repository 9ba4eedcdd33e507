#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/lowering/gradients.h"
#include "src/lowering/operations.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/model/layer.h"
#include "src/model/model.h"

namespace stepcast::lowering {

// How DeepSpeed's stages 1 and 2 lay out parameters and cut gradients into buckets
// (deepspeed/runtime/zero/stage_1_and_2.py @ 02aa38c3; of experts deepspeed/moe/utils.py @
// ce352eb1).

// The most that one rank has to do with: tensors that reach into its part, whole.
struct Holding {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
};

// Parameters in one flat tensor, cut into equal parts, one for each rank.
struct FlatOrder {
  FlatOrder() = default;
  // Registration order, or `round_robin`: every ranks-th tensor, from each start in turn. Padded to
  // a multiple of 2 x ranks elements, so that parts begin at 4 bytes. `of`: the tensors, or all.
  FlatOrder(const model::Model& model, std::span<const int> of, std::int64_t ranks,
            bool round_robin);
  FlatOrder(const model::Model& model, std::int64_t ranks, bool round_robin);

  std::int64_t padded() const { return part_ * ranks; }
  std::int64_t part() const { return part_; }
  std::int64_t elements() const { return elements_; }  // without padding
  // Of all ranks, the largest number and sum of tensors that reach into a part.
  Holding LargestHolding() const;

  std::int64_t ranks = 1;
  std::vector<int> tensors;           // in flat order
  std::vector<std::int64_t> offsets;  // by tensor of the model, in the flat tensor
  std::vector<std::int64_t> sizes;    // by tensor of the model

 private:
  std::int64_t part_ = 0, elements_ = 0;
};

// The parameters that one call of DeepSpeed's optimizer updates. They lie in one flat buffer of
// their own.
struct FlatGroup {
  model::ParameterGroup ranks_of = model::ParameterGroup::kDense;  // that have parts of it
  FlatOrder flat;
};

// By model::ParameterGroup.
template <typename Value>
using OfParameterGroups = std::array<Value, std::size(model::kParameterGroups)>;

// The groups of the optimizer's parameters: the dense ones, and experts, which stand on other
// ranks, in groups of at most 178,956,971 elements, a larger tensor by itself
// (split_params_into_different_moe_groups_for_optimizer). `ranks` share each out. Without
// `experts_apart` there is one group.
class FlatGroups {
 public:
  FlatGroups(const model::Model& model, const OfParameterGroups<std::int64_t>& ranks,
             bool experts_apart, bool round_robin);

  std::span<const FlatGroup> all() const { return groups_; }
  std::size_t group_of(int tensor) const { return of_tensors_[static_cast<std::size_t>(tensor)]; }
  const FlatGroup& of(int tensor) const { return groups_[group_of(tensor)]; }

 private:
  void Add(const model::Model& model, model::ParameterGroup ranks_of, std::span<const int> tensors,
           std::int64_t ranks, bool round_robin);

  std::vector<FlatGroup> groups_;
  std::vector<std::size_t> of_tensors_;
};

struct DeepSpeedBucket {
  // What the same ranks reduce.
  struct Share {
    std::int64_t elements = 0;
    std::int64_t first = 0;  // where its first tensor begins in the bucket
    // Runs of elements that one rank owns; a run ends where the next element is another's.
    std::int64_t parts = 0;
  };
  std::vector<int> tensors;  // in the order in which they are put in
  std::int64_t elements = 0;
  bool extra_large = false;  // one tensor, larger than a bucket may be
  OfParameterGroups<Share> shares{};
};

// A tensor that would take the bucket beyond `limit` elements opens the next one. Tensors of all
// groups go into the same buckets.
std::vector<DeepSpeedBucket> BucketsOf(const model::Model& model, std::span<const int> order,
                                       const FlatGroups& groups, std::int64_t limit);

// DeepSpeed's stage 0 after backward (deepspeed/runtime/engine.py, allreduce_no_retain): gradients
// in registration order, in chunks that the tensor closes which takes one beyond 5e8 elements. Each
// is put together, cast to the type that is sent, divided, all-reduced, cast and copied back, all
// on the compute stream; those of experts behind the others, over the ranks that have the same
// (_reduce_non_expert_gradients, _reduce_expert_gradients).

class ChunkedReduction {
 public:
  ChunkedReduction(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  // Prologue, for tensors whose gradients `communicator` adds up, if there is one. `ranks`: what
  // they are divided by, all data-parallel ranks.
  void AddChunks(Index communicator, std::int64_t ranks, std::span<const int> tensors);
  void Reduce(const LocalGradients& gradients);

 private:
  struct Chunk {
    Index communicator = program::kNone;
    Pieces pieces;  // of whole tensors
    Range flat;
    Range sent;  // in the type that is sent, where that is another
  };

  TrainingStep& step_;
  Operations& operations_;
  std::int64_t ranks_ = 1;
  std::vector<Chunk> chunks_;
};

// The flat tensors of DeepSpeed's stages 0 to 2 on one rank: where parameters lie, and which of
// their elements the rank owns. At stage 0 it owns all.

class DeepSpeedPartitions {
 public:
  DeepSpeedPartitions(TrainingStep& step, Operations& operations);

  // Prologue. Communicators first.
  void AddCommunicators();
  void AddParameters();

  std::size_t size() const { return states_.size(); }  // groups, dense parameters first
  const FlatGroups& groups() const { return flats_; }
  const FlatOrder& flat(std::size_t g) const { return flats_.all()[g].flat; }
  // "", "expert ", "expert group 2 ": what names of the group's buffers begin with.
  static std::string PrefixOf(std::size_t g);
  // What one rank has to do with of a group, and of all of them.
  const Holding& held(std::size_t g) const { return states_[g].held; }
  const Holding& held() const { return held_; }
  // By the ranks that share elements out: those ranks, all such elements, and what of them tensors
  // have that reach into a rank's parts.
  std::int64_t ranks(model::ParameterGroup of) const {
    return static_cast<std::int64_t>(ranks_[IndexOf(of)].data.size());
  }
  std::int64_t ElementsOf(model::ParameterGroup ranks_of) const;
  std::int64_t HeldOf(model::ParameterGroup ranks_of) const;
  Index communicator(model::ParameterGroup of) const { return communicators_[IndexOf(of)]; }

  Range Parameter(int tensor) const;
  program::BufferUse OwnParameters(std::size_t g) const;
  // Where an element of the rank's part of a tensor lies in the rank's part of the group, and in
  // the rank's parts of all groups, each with room for what it holds.
  std::int64_t OwnOffset(int tensor, std::int64_t first) const;
  std::int64_t KeptOffset(int tensor, std::int64_t first) const {
    return states_[flats_.group_of(tensor)].kept_first + OwnOffset(tensor, first);
  }
  // Calls visit(tensor, first element in it, elements) for what the rank owns.
  template <typename Visit>
  void ForEachOwn(std::size_t g, Visit visit) const {
    if (!step_.builder().describes_data_flow()) return;
    for (const int tensor : flat(g).tensors) VisitOwn(tensor, visit);
  }
  template <typename Visit>
  void VisitOwn(int tensor, Visit visit) const {
    const std::size_t g = flats_.group_of(tensor);
    const std::int64_t begin = states_[g].own_first - flat(g).offsets[tensor];
    const std::int64_t first = std::max<std::int64_t>(0, begin);
    const std::int64_t last = std::min(flat(g).sizes[tensor], begin + flat(g).part());
    if (first < last) visit(tensor, first, last - first);
  }

  // Behind the update, on the compute stream: all ranks' parts, group by group.
  void Gather();

 private:
  // What the rank has of a group.
  struct State {
    Range parameters;
    std::int64_t own_first = 0;   // where its part of the flat tensor begins
    std::int64_t kept_first = 0;  // see KeptOffset
    Holding held;
  };

  static std::size_t IndexOf(model::ParameterGroup group) {
    return static_cast<std::size_t>(group);
  }
  OfParameterGroups<std::int64_t> Shards() const;

  TrainingStep& step_;
  Operations& operations_;
  const bool shards_;
  const OfParameterGroups<ProcessGroups> ranks_;
  const FlatGroups flats_;
  std::vector<State> states_;
  Holding held_;
  OfParameterGroups<Index> communicators_{program::kNone, program::kNone};
};

// The end of a step as all of DeepSpeed's ZeRO optimizers have it (deepspeed/runtime/zero/
// stage_1_and_2.py @ 02aa38c3 and stage3.py @ 007cca6a, step()): overflow check in fp16, gradient
// norm, and then group by group: gradients put behind one another and cast to FP32, unscaled, the
// optimizer on FP32 values, the result copied to the parameters.

// Elements that one call of the optimizer updates.
struct UpdateGroup {
  std::int64_t elements = 0;         // with padding
  Index states = program::kNone;     // FP32: a copy of the parameters, then the moments
  Index flat = program::kNone;       // the gradients, behind one another
  Index gradients = program::kNone;  // in FP32; `flat` itself where that is FP32
  Index flatten = program::kNone, cast = program::kNone, unscale = program::kNone;  // kernels
  Index copy = program::kNone;                                                      // kernel
};

class DeepSpeedUpdate {
 public:
  // `experts`: over which the norm of experts' gradients is averaged; kNone: there is no such norm,
  // or one rank has them.
  DeepSpeedUpdate(TrainingStep& step, Index communicator, Index experts = program::kNone);

  // Prologue: describes a group and allocates its states. `padding`: of `elements`.
  UpdateGroup AddGroup(const std::string& name, std::int64_t elements, std::int64_t padding);
  // The model elements [first, first + count) are the group's from `offset` on.
  void AddState(const UpdateGroup& group, std::int64_t offset, std::int64_t first,
                std::int64_t count);

  // fp16 only: looks for overflow in `tensors` tensors of together `elements` that `uses` names, on
  // `stream`; all ranks agree, and the host waits for the answer.
  void CheckOverflow(StreamId stream, std::int64_t tensors, std::int64_t elements,
                     const std::vector<program::BufferUse>& uses);
  // All ranks agree on one number, on the compute stream; `then` is done with it.
  void AgreeOnScalar(std::span<const program::Effect> then = {}, bool of_experts = false);
  // The norm of all gradients: of these tensors, then over all ranks. `squares`, of the model's
  // elements among them, are made with SquaresOf; they count with what calls before in this step
  // brought, if this is not the `first`. `of_experts`: the ranks that have the same experts average
  // what all have added up, which is the same on each (_average_expert_grad_norms).
  void TakeNorm(std::int64_t tensors, std::int64_t elements,
                const std::vector<program::BufferUse>& uses,
                std::span<const program::Effect> squares, bool first, bool of_experts = false);
  // The squares of elements that `copies` ranks have.
  program::Effect SquaresOf(const program::Elements& source, std::int64_t elements,
                            std::int64_t copies) const;

  // Puts the group's gradients behind one another; `moves` fill group.flat from what `uses` names.
  // What held them may then be released.
  void Flatten(const UpdateGroup& group, std::vector<program::BufferUse> uses,
               std::span<const program::Effect> moves);
  // Updates the parameters that `parameters` names. `updates`: see UpdateOf.
  void Apply(const UpdateGroup& group, const std::vector<program::BufferUse>& parameters,
             std::span<const program::Effect> updates);
  // The update of `count` parameters at `place`, which are the group's from `offset` on.
  program::Effect UpdateOf(const UpdateGroup& group, const program::Elements& place,
                           std::int64_t offset, std::int64_t count) const;

 private:
  Index MemoryKernel(const char* name, std::int64_t elements, std::int64_t read_bytes,
                     std::int64_t written_bytes);
  // The optimizer's own arrays: behind the copy of the parameters where those are FP32 themselves.
  program::Elements StatesOf(const UpdateGroup& group, std::int64_t offset) const;

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Training& training_;
  // The optimizer sees FP32 alone.
  plan::Training fp32_;
  Index communicator_;
  Index scalar_ = program::kNone;   // buffer: two FP32 numbers, the latest and the sum
  Index reduced_ = program::kNone;  // event
  std::vector<Index> all_reduces_;  // collectives: over data, over the parts of the model
  Index average_ = program::kNone;  // collective, over the ranks that have the same experts
};

}  // namespace stepcast::lowering
