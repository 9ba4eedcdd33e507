#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/lowering/gradients.h"
#include "src/lowering/layouts.h"
#include "src/lowering/model_state.h"
#include "src/lowering/operations.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"
#include "src/model/layer.h"
#include "src/model/model.h"
#include "src/plan/data_parallel.h"

namespace stepcast::lowering {

// Groups of parameters that are gathered and freed together when parameters are sharded.

struct Unit {
  std::string name;           // name of the unit's first layer, or "root"
  std::vector<int> layers;    // ascending; forward needs the unit from the first layer to the last
  std::vector<int> tensors;   // tensors of the unit, in registration order
  std::vector<int> frozen;    // indices in Model::frozen, in registration order
  std::int64_t elements = 0;  // number of elements in `tensors`
  bool root = false;          // contains all parameters outside other units
};

struct Units {
  std::vector<Unit> units;    // in the order of their first layers
  std::vector<int> of_layer;  // index of each layer's unit
};

// Returns units of one layer each. Layers that share a tied tensor are one unit.
Units UnitPerLayer(const model::Model& model);

// Returns the units that FSDP wraps (plan::DataParallel::units, ::unit_blocks). A pipeline chunk is
// a module with a separate root; `chunk_begins` are the first layers of the stage's chunks.
//   - Default: PyTorch's usual wrapping calls `fully_shard` on every block and then on the model.
//     Every block is a unit, and the rest (embedding, final norm, output layer) is the root unit.
//   - kLayer: embedding and output layer are also units, as in torchtitan and Galvatron. Layers
//     that share a tied tensor are in the root unit, because a parameter belongs to one unit.
//   - kModel: all layers are in the root unit.
Units WrappedUnitsOf(const model::Model& model, const plan::DataParallel& plan,
                     const std::vector<int>& chunk_begins = {0});

// Returns one bucket per unit, in the order in which the units' gradients become complete. `order`,
// the order of the tensors, is sorted by bucket; the buckets refer to `order`.
std::vector<Bucket> BucketPerUnit(const Units& units, std::vector<int>& order);

// The order in which frameworks with hooks visit units. The root is first in forward and in
// backward, because its hooks enclose all other hooks. The blocks follow the root.
struct UnitOrder {
  UnitOrder() = default;
  // `has_parameters` states for each unit whether it has parameters.
  UnitOrder(const Units& units, const std::vector<bool>& has_parameters);
  // Includes only the units whose first layer is in [first, end).
  UnitOrder(const Units& units, const std::vector<bool>& has_parameters, int first, int end);

  // Returns the unit that forward visits `distance` units later. If `distance` is negative, returns
  // the unit that backward visits -distance units later. -1: no such unit.
  int Later(int unit, std::int64_t distance) const;

  int root = -1;            // index of the root unit; -1: no root unit
  std::vector<int> blocks;  // the other units with parameters, in forward order
  std::vector<int> place;   // indexed by unit: position in blocks; -1: not in blocks
};

// FSDP2's data of a sharded module: ranges, events, and state while a step is being written.

// A module under fully_shard. If its experts are sharded over other ranks, the module has two
// units, one per mesh. The parameters of one unit are gathered and reduced together. (torchtitan
// instead makes one fully_shard call with a mesh per parameter.)
struct ShardedUnit {
  model::ParameterGroup group = model::ParameterGroup::kDense;
  int experts = -1;  // the unit of the module's experts; -1: no separate unit
  bool root = false;
  int first_layer = 0, last_layer = 0;
  std::vector<int> tensors;
  // For each tensor, the number of this rank's elements, including padded rows.
  std::vector<std::int64_t> tensor_elements;
  std::int64_t shard_elements = 0;     // sum of tensor_elements
  std::int64_t gathered_elements = 0;  // elements of all ranks, including frozen parameters
  BlockLayout blocks;                  // layout of the shards; only with a data flow
  BlockLayout gather_blocks;           // `blocks`, followed by the frozen parameters
  // Layout of the shards over the k ranks of reshard_after_forward.
  BlockLayout kept_blocks;
  bool empty = false;        // whether the unit has no elements
  bool has_backward = true;  // false: the unit and all earlier layers are untrained
  ShardedState state;
  // Parameters:
  Range gathered;  // result of the all-gather
  Range full;      // the parameters that kernels read
  Range kept;      // the part kept with reshard_after_forward: k
  Range frozen;    // this rank's shard of untrained parameters
  Index gather_done = program::kNone, copy_out_done = program::kNone,
        kept_written = program::kNone;  // indices of events
  bool gather_issued = false;           // a gather is issued, but its result is not copied
  bool unshard_issued = false;          // the schedule has requested the parameters
  bool unsharded = false;               // the full parameters exist
  bool has_kept = false;
  // Gradients:
  Range accumulated;                    // full gradients in reduce_dtype; only without sync
  Range reduce_input;                   // full gradients in reduce_dtype
  Range reduce_output;                  // this rank's shard, in reduce_dtype
  Index reduced = program::kNone;       // event: the reduce-scatter has read its input
  Index post_reduced = program::kNone;  // event: the sharded gradient is final
  bool has_accumulated = false;
};

struct Fsdp2Shards {
  // The number of ranks that shard a parameter group, and this rank's index among them. `meshes` is
  // indexed by model::ParameterGroup.
  struct Mesh {
    std::int64_t index = 0, ranks = 1;
  };
  std::array<Mesh, 2> meshes{};
  bool has_experts_apart = false;  // value of plan::HasExpertGroup
  std::int64_t kept_ranks = 0;     // k of reshard_after_forward: k; 0: no parts are kept
  bool accumulates = false;        // whether full gradients are kept in reduce_dtype
};

// Adds the units in the order of `wrapping`, followed by the units of experts. Allocates the
// buffers that persist between steps.
std::vector<ShardedUnit> AddShardedUnits(TrainingStep& step, Operations& operations,
                                         const Units& wrapping, const Fsdp2Shards& shards);

// The sharded units of the reference framework's ZeRO stage 3. Every layer is a unit. A unit is
// gathered in the compute type `prefetch` units before it is needed, and freed after its last
// layer.

class GatheredUnits {
 public:
  // `pieces` must be laid out before the first step is written.
  GatheredUnits(TrainingStep& step, Operations& operations, const ProcessGroups& groups,
                const TensorPieces& pieces);

  // Adds the units and allocates this rank's shards. Gathers run on `stream`.
  void WritePrologue(StreamId stream, Index communicator);

  void BeforeForward(int layer);
  void AfterForward(int layer);
  void BeforeBackward(int layer);
  void AfterBackward(int layer);

  std::span<const Unit> units() const { return units_.units; }
  const FlatLayout& layout(int unit) const { return states_[unit].layout; }
  const Range& full(int unit) const { return states_[unit].full; }
  const Range& own(int unit) const { return states_[unit].own; }

 private:
  struct State {
    FlatLayout layout;
    Range full;                       // the full parameters while the unit is gathered
    Range own;                        // this rank's shard
    Range kept;                       // the part kept for backward with reshard_after_forward: k
    Index gathered = program::kNone;  // index of an event
    bool resident = false;            // whether the unit is gathered, or being gathered
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
  const DataType type_;  // data type of gathered parameters
  StreamId stream_ = 0;
  Index communicator_ = program::kNone, kept_communicator_ = program::kNone;
  parallel::GroupLayout keepers_;  // the ranks that share a copy with reshard_after_forward: k
  Units units_;
  std::vector<State> states_;
  std::vector<int> forward_order_, backward_order_;  // units with parameters
};

}  // namespace stepcast::lowering
