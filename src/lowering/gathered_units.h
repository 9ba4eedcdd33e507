#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/operations.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/shard.h"
#include "src/lowering/tensor_pieces.h"
#include "src/lowering/training_step.h"
#include "src/lowering/units.h"

// Sharded units as textbooks have them (ZeRO stage 3): every layer a unit, gathered before its
// first layer in the type of the computation, `prefetch` units ahead, and freed behind its last.
namespace stepcast::lowering {

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
