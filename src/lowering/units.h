#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/lowering/gradients.h"
#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/sharded_state.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/model/layer.h"
#include "src/model/model.h"
#include "src/plan/data_parallel.h"

namespace stepcast::lowering {

// What is gathered and freed together when parameters are sharded.

struct Unit {
  std::string name;           // of its first layer, or "root"
  std::vector<int> layers;    // ascending; forward needs it from the first to the last of them
  std::vector<int> tensors;   // owned, registration order
  std::vector<int> frozen;    // the same of Model::frozen
  std::int64_t elements = 0;  // of tensors
  bool root = false;          // all that is in no unit of its own: UnitPerBlock, UnitPerModule
};

struct Units {
  std::vector<Unit> units;    // in the order of their first layers
  std::vector<int> of_layer;  // unit of each layer
};

// Every layer a unit of its own; layers that share a tied tensor are one unit.
Units UnitPerLayer(const model::Model& model);

// What FSDP wraps (plan::DataParallel::units, ::unit_blocks). PyTorch's usual wrapping is
// `fully_shard` on every block and then on the model: every block a unit, all the rest (embedding,
// final norm, head) the root unit. kLayer: embedding and head are units, too, as torchtitan and
// Galvatron wrap; layers that share a tied tensor make up the root unit, for a unit's parameters
// are its own. kModel: everything is the root's. `chunk_begins`: of a pipeline stage, the first
// layer of each of its chunks, which is a module with a root of its own.
Units WrappedUnitsOf(const model::Model& model, const plan::DataParallel& plan,
                     const std::vector<int>& chunk_begins = {0});

// One bucket for each unit, in the order in which the units' gradients are complete, where those of
// tensors are in this `order`, which is sorted by it. The buckets point into `order`.
std::vector<Bucket> BucketPerUnit(const Units& units, std::vector<int>& order);

// The order in which frameworks with hooks visit units: the root first, both forward and backward,
// for its hooks are around all others'; then the blocks.
struct UnitOrder {
  UnitOrder() = default;
  // `has_parameters`: by unit.
  UnitOrder(const Units& units, const std::vector<bool>& has_parameters);
  // Of the units that begin with one of the layers [first, end).
  UnitOrder(const Units& units, const std::vector<bool>& has_parameters, int first, int end);

  // The unit that comes `distance` units later, forward or (negative) backward; -1: none.
  int Later(int unit, std::int64_t distance) const;

  int root = -1;            // unit; -1: there is none
  std::vector<int> blocks;  // the other units with parameters, in forward order
  std::vector<int> place;   // by unit: in blocks; -1: not there
};

// What FSDP2 has of each module that it shards: ranges, events, and what there is of them while a
// step is written.

// One fully_shard'ed module, or of one whose experts are sharded over other ranks than the rest the
// one or the other: parameters of one mesh, which are gathered and reduced together (torchtitan:
// one fully_shard with a mesh for each parameter).
struct ShardedUnit {
  model::ParameterGroup group = model::ParameterGroup::kDense;
  int experts = -1;  // the unit of the module's experts, where they have one; else -1
  bool root = false;
  int first_layer = 0, last_layer = 0;
  std::vector<int> tensors;
  std::vector<std::int64_t> tensor_elements;  // of this rank, by tensor, padded rows included
  std::int64_t shard_elements = 0;            // of all of them
  std::int64_t gathered_elements = 0;         // of all ranks, frozen ones, too
  BlockLayout blocks;                         // of the shards; with a data flow
  BlockLayout gather_blocks;                  // the same before the frozen ones
  BlockLayout kept_blocks;                    // of what reshard_after_forward: k keeps
  bool empty = false;                         // no elements
  bool has_backward = true;                   // else nothing before it, or of it, is trained
  ShardedState state;
  // Parameters.
  Range gathered;  // result of the all-gather
  Range full;      // the parameters as the kernels read them
  Range kept;      // reshard_after_forward: k
  Range frozen;    // this rank's shard of what is not trained
  Index gather_done = program::kNone, copy_out_done = program::kNone,
        kept_written = program::kNone;  // events
  bool gather_issued = false;           // a gather is in flight or its result waits for copy-out
  bool unshard_issued = false;          // the schedule has asked for it
  bool unsharded = false;               // the full parameters exist
  bool has_kept = false;
  // Gradients.
  Range accumulated;                    // full, in reduce_dtype, when synchronisation is put off
  Range reduce_input;                   // full, in reduce_dtype
  Range reduce_output;                  // this rank's shard, in reduce_dtype
  Index reduced = program::kNone;       // event: the reduce-scatter has read its input
  Index post_reduced = program::kNone;  // event: the sharded gradient is final
  bool has_accumulated = false;
};

struct Fsdp2Shards {
  // By model::ParameterGroup: over how many ranks, and which of them this one is.
  struct Mesh {
    std::int64_t index = 0, ranks = 1;
  };
  std::array<Mesh, 2> meshes{};
  bool has_experts_apart = false;  // plan::HasExpertGroup
  std::int64_t kept_ranks = 0;     // of reshard_after_forward: k; 0: no parts are kept
  bool accumulates = false;        // full gradients are kept in reduce_dtype
};

// Describes the units of `wrapping`, in its order, and behind them those of experts; allocates what
// lives from step to step.
std::vector<ShardedUnit> AddShardedUnits(TrainingStep& step, Operations& operations,
                                         const Units& wrapping, const Fsdp2Shards& shards);

// Sharded units as textbooks have them (ZeRO stage 3): every layer a unit, gathered before its
// first layer in the type of the computation, `prefetch` units ahead, and freed behind its last.

class GatheredUnits {
 public:
  // `pieces` are laid out before the first step is written.
  GatheredUnits(TrainingStep& step, Operations& operations, const ProcessGroups& groups,
                const TensorPieces& pieces);

  // Describes the units, and allocates this rank's shards of them. Gathers run on `stream`.
  void WritePrologue(StreamId stream, Index communicator);

  void BeforeForward(int layer);
  void AfterForward(int layer);
  void BeforeBackward(int layer);
  void AfterBackward(int layer);

  std::span<const Unit> units() const { return units_.units; }
  const Shard& shard(int unit) const { return states_[unit].shard; }
  const Range& full(int unit) const { return states_[unit].full; }
  const Range& own(int unit) const { return states_[unit].own; }

 private:
  struct State {
    Shard shard;
    Range full;                       // while it is gathered
    Range own;                        // this rank's shard
    Range kept;                       // reshard_after_forward: k: what is kept for backward
    Index gathered = program::kNone;  // event
    bool resident = false;            // gathered, or being gathered
    bool has_kept = false;
  };

  void Gather(const std::vector<int>& order, int unit);
  void IssueGather(int unit);
  void Keep(int unit);
  void Free(State& state);
  void MovesOf(int unit, std::int64_t begin, std::int64_t length, const program::Elements& target,
               const program::Elements& source);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Operations& operations_;
  const ProcessGroups& groups_;
  const TensorPieces& pieces_;
  const plan::DataParallel& plan_;
  const DataType type_;  // of gathered parameters
  StreamId stream_ = 0;
  Index communicator_ = program::kNone, kept_communicator_ = program::kNone;
  Units units_;
  std::vector<State> states_;
  std::vector<int> forward_order_, backward_order_;  // units with parameters
};

}  // namespace stepcast::lowering
