#pragma once

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

// The layout of parameters and the division of gradients into buckets in DeepSpeed's stages 1 and 2
// (deepspeed/runtime/zero/stage_1_and_2.py @ 02aa38c3; for experts deepspeed/moe/utils.py @
// ce352eb1).

// The tensors that overlap one rank's part, completely or partly. Both numbers are maxima over
// ranks. `elements` is the sum of the complete sizes of these tensors.
struct Holding {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
};

// Returns the layout of all parameters in one flat tensor, with one equal part per rank. Parameters
// are in registration order. With `round_robin`, every ranks-th parameter from 0 on is first, then
// every ranks-th parameter from 1 on, and so on. The flat tensor is padded to a multiple of 2 x
// ranks elements, so that each part is aligned to 4 bytes.
FlatLayout DeepSpeedLayout(const model::Model& model, std::span<const int> tensors,
                           std::int64_t ranks, bool round_robin);
Holding LargestHolding(const FlatLayout& flat);

// The parameters in one flat buffer, which one call of DeepSpeed's optimizer updates.
struct FlatGroup {
  // The kind of parameters, which determines the ranks among which the group is divided.
  model::ParameterGroup ranks_of = model::ParameterGroup::kDense;
  FlatLayout flat;
};

// One value for each model::ParameterGroup.
template <typename Value>
using OfParameterGroups = std::array<Value, std::size(model::kParameterGroups)>;

// The optimizer's parameter groups. Dense parameters form one group. Experts are stored on other
// ranks, and form groups of at most 178,956,971 elements. A larger tensor is in a separate group
// (split_params_into_different_moe_groups_for_optimizer). The ranks with copies of the same
// parameters divide each group. If `experts_apart` is false, there is one group for all parameters.
class FlatGroups {
 public:
  FlatGroups(const model::Model& model, const OfParameterGroups<std::int64_t>& ranks,
             bool experts_apart, bool round_robin);

  std::span<const FlatGroup> all() const { return groups_; }
  std::size_t group_of(int tensor) const { return of_tensors_[static_cast<std::size_t>(tensor)]; }
  const FlatGroup& of(int tensor) const { return groups_[group_of(tensor)]; }
  // Returns the offset, in elements, of a tensor in the flat tensor of its group.
  std::int64_t offset_of(int tensor) const { return offsets_[static_cast<std::size_t>(tensor)]; }

 private:
  void Add(const model::Model& model, model::ParameterGroup ranks_of, std::span<const int> tensors,
           std::int64_t ranks, bool round_robin);

  std::vector<FlatGroup> groups_;
  std::vector<std::size_t> of_tensors_;
  std::vector<std::int64_t> offsets_;  // indexed by tensor
};

struct DeepSpeedBucket {
  // The part of a bucket that is reduced over one set of ranks.
  struct Share {
    std::int64_t elements = 0;
    std::int64_t first = 0;  // offset in the bucket of the first tensor of the part
    // The number of ranges in the bucket. Each range belongs to one rank.
    std::int64_t parts = 0;
  };
  std::vector<int> tensors;  // in order of insertion
  std::int64_t elements = 0;
  bool extra_large = false;  // a single tensor that exceeds the bucket limit
  OfParameterGroups<Share> shares{};
};

// Divides tensors into buckets of at most `limit` elements. A tensor that does not fit into the
// current bucket starts the next one. A bucket may contain tensors of all groups.
std::vector<DeepSpeedBucket> BucketsOf(const model::Model& model, std::span<const int> order,
                                       const FlatGroups& groups, std::int64_t limit);

// The reduction of gradients after backward at DeepSpeed's stage 0 (deepspeed/runtime/engine.py,
// allreduce_no_retain). Gradients are reduced in registration order, in chunks. A chunk ends with
// the tensor that makes the chunk larger than 5e8 elements. Each chunk is packed, cast to the
// communication type, divided, all-reduced, cast back and unpacked, on the compute stream.
// Afterward, experts' gradients are reduced over the ranks with the same experts
// (_reduce_non_expert_gradients, _reduce_expert_gradients).

class ChunkedReduction {
 public:
  ChunkedReduction(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  // Adds the chunks of `tensors`, in the prologue. Gradients are summed over `communicator` (kNone:
  // one rank) and divided by `ranks`, the number of data-parallel ranks.
  void AddChunks(Index communicator, std::int64_t ranks, std::span<const int> tensors);
  void Reduce(const LocalGradients& gradients);

 private:
  struct Chunk {
    Index communicator = program::kNone;
    Pieces pieces;  // complete tensors
    Range flat;
    Range sent;  // in the communication type, if it differs from the stored type
  };

  TrainingStep& step_;
  Operations& operations_;
  std::int64_t ranks_ = 1;
  std::vector<Chunk> chunks_;
};

// The flat tensors of DeepSpeed's stages 0 to 2 on one rank: the location of each parameter, and
// the elements that the rank owns. At stage 0, the rank owns all elements.

class DeepSpeedPartitions {
 public:
  DeepSpeedPartitions(TrainingStep& step, Operations& operations);

  // Write the prologue. Call AddCommunicators before the other functions of the prologue.
  void AddCommunicators();
  void AddParameters();

  std::size_t size() const { return states_.size(); }  // number of groups, dense parameters first
  const FlatGroups& groups() const { return flats_; }
  const FlatLayout& flat(std::size_t g) const { return flats_.all()[g].flat; }
  // Returns the prefix of the group's buffer names: "", "expert " or "expert group 2 ".
  static std::string PrefixOf(std::size_t g);
  // Return the tensors that overlap this rank's part of group g, or its parts of all groups.
  const Holding& held(std::size_t g) const { return states_[g].held; }
  const Holding& held() const { return held_; }
  // Describe the parameters of one kind. `ranks` returns the number of ranks among which the
  // parameters are divided. ElementsOf returns the number of their elements. HeldOf returns the
  // total number of elements of the tensors that overlap a rank's parts.
  std::int64_t ranks(model::ParameterGroup of) const {
    return static_cast<std::int64_t>(ranks_[IndexOf(of)].data.size());
  }
  std::int64_t ElementsOf(model::ParameterGroup ranks_of) const;
  std::int64_t HeldOf(model::ParameterGroup ranks_of) const;
  Index communicator(model::ParameterGroup of) const { return communicators_[IndexOf(of)]; }

  Range Parameter(int tensor) const;
  program::BufferUse OwnParameters(std::size_t g) const;
  // Own returns the pieces of a group that the rank owns. OwnOf returns the rank's piece of a
  // tensor, or null if the rank has no piece. Without a data flow, Own is empty and OwnOf returns
  // null. Offsets are relative to the rank's part of the group.
  std::span<const Piece> Own(std::size_t g) const { return states_[g].own; }
  const Piece* OwnOf(int tensor) const;
  // Returns the offset of a piece, in elements, if this rank's parts of all groups are
  // concatenated. The part of group g has held(g).elements elements.
  std::int64_t KeptOffset(const Piece& own) const {
    return states_[flats_.group_of(own.tensor)].kept_first + own.offset;
  }

  // Gathers the parts of all ranks, one group after another, on the compute stream. Call this
  // function after the update.
  void Gather();

 private:
  // The rank's part of a group.
  struct State {
    Range parameters;
    Pieces own;                   // see Own
    std::int64_t own_first = 0;   // offset of the rank's part in the flat tensor
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

// The end of a step in DeepSpeed's ZeRO optimizers (deepspeed/runtime/zero/stage_1_and_2.py @
// 02aa38c3 and stage3.py @ 007cca6a, step()). The step checks for overflow (in fp16) and computes
// the gradient norm. For each group, the step packs the gradients, casts them to FP32 and unscales
// them. The optimizer updates FP32 values, which are then copied to the parameters.

// A group of elements that the optimizer updates in one call, with its buffers and kernels.
struct UpdateGroup {
  std::int64_t elements = 0;         // including padding
  Index states = program::kNone;     // FP32 buffer: a copy of the parameters, then the moments
  Index flat = program::kNone;       // buffer: the packed gradients
  Index gradients = program::kNone;  // buffer: gradients in FP32; equal to `flat` if `flat` is FP32
  Index flatten = program::kNone, cast = program::kNone, unscale = program::kNone;  // kernels
  Index copy = program::kNone;                                                      // kernel
};

class DeepSpeedUpdate {
 public:
  // `experts` is the communicator over which the norm of experts' gradients is averaged (kNone:
  // there are no experts, or one rank has all of them).
  DeepSpeedUpdate(TrainingStep& step, Index communicator, Index experts = program::kNone);

  // Adds a group and allocates its states, in the prologue. `elements` includes `padding`.
  UpdateGroup AddGroup(const std::string& name, std::int64_t elements, std::int64_t padding);
  // Declares that the model's elements [first, first + count) start at element `offset` of the
  // group.
  void AddState(const UpdateGroup& group, std::int64_t offset, std::int64_t first,
                std::int64_t count);

  // With fp16 parameters, checks gradients for overflow on `stream`; otherwise, does nothing.
  // `uses` are the ranges to check, which contain `tensors` tensors with `elements` elements in
  // total. The result is reduced over all ranks, and the host waits for the reduction.
  void CheckOverflow(StreamId stream, std::int64_t tensors, std::int64_t elements,
                     const std::vector<program::BufferUse>& uses);
  // Sums one number over all ranks, on the compute stream. The effects `then` use the sum. With
  // `of_experts`, also reduces over the ranks with the same experts.
  void AgreeOnScalar(std::span<const program::Effect> then = {}, bool of_experts = false);
  // Computes the norm of all gradients: first over `tensors` tensors, then over all ranks.
  // `squares` are the results of SquaresOf for these tensors. If `first` is true, the call starts a
  // new sum; otherwise, the call adds to the sum. With `of_experts`, ranks with the same experts
  // average their sums, which are equal (_average_expert_grad_norms).
  void TakeNorm(std::int64_t tensors, std::int64_t elements,
                const std::vector<program::BufferUse>& uses,
                std::span<const program::Effect> squares, bool first, bool of_experts = false);
  // Returns the effect that sums the squares of elements. Each element is stored on `copies` ranks.
  program::Effect SquaresOf(const program::Elements& source, std::int64_t elements,
                            std::int64_t copies) const;

  // Packs the group's gradients into group.flat. `moves` copy the gradients from the ranges in
  // `uses`, whose buffers may be released afterward.
  void Flatten(const UpdateGroup& group, std::vector<program::BufferUse> uses,
               std::span<const program::Effect> moves);
  // Updates the parameters in the ranges `parameters`. `updates` are effects from UpdateOf.
  void Apply(const UpdateGroup& group, const std::vector<program::BufferUse>& parameters,
             std::span<const program::Effect> updates);
  // Returns the effect that updates `count` parameters at `place`, which are the elements of the
  // group from element `offset` on.
  program::Effect UpdateOf(const UpdateGroup& group, const program::Elements& place,
                           std::int64_t offset, std::int64_t count) const;

 private:
  Index MemoryKernel(const char* name, std::int64_t elements, std::int64_t read_bytes,
                     std::int64_t written_bytes);
  // Returns the location of the optimizer's arrays, from element `offset` of the group on. If there
  // is an FP32 copy of the parameters, the arrays are stored after this copy.
  program::Elements StatesOf(const UpdateGroup& group, std::int64_t offset) const;

  TrainingStep& step_;
  ProgramBuilder& builder_;
  const plan::Training& training_;
  // The plan's training settings, with all of the optimizer's data types set to FP32.
  plan::Training fp32_;
  Index communicator_;
  Index scalar_ = program::kNone;   // buffer of two FP32 numbers: the latest number, the sum
  Index reduced_ = program::kNone;  // index of an event
  std::vector<Index> all_reduces_;  // over data-parallel ranks, over parts of the model
  Index average_ = program::kNone;  // collective over the ranks with the same experts
};

}  // namespace stepcast::lowering
