#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/lowering/backpressure.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/operations.h"
#include "src/lowering/parameter_coordinator.h"
#include "src/lowering/partitioned_tensors.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/training_step.h"

// Parameters at DeepSpeed's stage 3: this rank's parts, and what is gathered and freed around
// modules as the coordinator says (deepspeed/runtime/zero/partition_parameters.py,
// partitioned_param_coordinator.py; stage3.h names the versions). With zero_hpz_partition_size few
// ranks share a secondary copy, from which backward gathers; with zero_quantized_weights 8-bit
// integers are sent; with offload_param parts come from the host, to a single rank as well, which
// then has nothing to gather (NoGatherHandle, NoGatherCoalescedHandle).
namespace stepcast::lowering {

class PartitionedParameters {
 public:
  using Parameters = ParameterCoordinator::Parameters;

  PartitionedParameters(TrainingStep& step, Operations& operations, HostOffload& offload,
                        const ProcessGroups& groups, const PartitionedTensors& parts);

  // Prologue, in this order.
  void SetStreams(StreamId gather_stream, StreamId nccl_stream, Index communicator);
  void AddEvents();
  void AddPartition();  // describes it, and allocates it unless it is on the host
  void AddTensors();
  void SetVisits(std::vector<Parameters> visits);

  void BeginMicroBatch() { coordinator_->BeginMicroBatch(); }
  // Around each visit, and behind backward.
  void Fetch();
  void Release() { FreeAll(coordinator_->Release()); }
  void ReleaseRest() { FreeAll(coordinator_->ReleaseRest()); }
  void ReleasePersistent() { FreeAll(persistent_); }
  // The parts are updated: secondary copies are of old values now; small parameters are gathered
  // again.
  void Renew();

  // Where kernels read a parameter.
  Range Place(int tensor) const {
    const Range& whole = ReadInPlace()
                             ? partition_.Part(parts_.tensors[tensor].offset, Elements(tensor))
                             : tensors_[tensor].full;
    return whole.Part(0, Elements(tensor));
  }
  // All parts of this rank.
  const Range& partition() const { return partition_; }

 private:
  struct Tensor {
    bool persistent = false;
    Range full;
    Range secondary;  // this rank's part of the copy that few ranks share
    bool has_secondary = false;
  };
  // Parameters gathered in one collective: from all ranks, or from those that share a secondary
  // copy.
  struct Gather {
    Parameters parameters;
    bool secondary = false;
    Index communicator = program::kNone;
    std::int64_t ranks = 0, index = 0;  // of the group, and this rank's place in it
    std::int64_t part = 0;              // elements of each rank
    Range staged;                       // this rank's parts as they come from the host
    Range flat;                         // what was gathered, of several parameters
    Range packed, flat_packed, scales;  // as 8-bit integers
    Index gathered = program::kNone;    // event
    int waiting = 0;                    // parameters that have not been waited for yet
    bool complete = false;
  };

  // A single rank's part is the whole: kernels read it where it lies, unless that is on the host.
  bool ReadInPlace() const { return parts_.ranks == 1 && !offload_.parameters(); }
  bool HasSecondary() const;
  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  std::int64_t PartLength(int tensor, const Gather& gather) const {
    return parts_.tensors[tensor].shard.padded() / gather.ranks;
  }
  // This rank's part of a tensor in the group's cut, without padding.
  std::int64_t OwnLength(int tensor, const Gather& gather) const;
  Range SourceOf(int tensor, const Gather& gather) const {
    return gather.secondary ? tensors_[tensor].secondary : parts_.PartOf(tensor, partition_);
  }

  void StartGather(const Parameters& asked);
  void StartGather(Gather& gather);
  void Stage(StreamId stream, const Range& staged);
  Gather& GatherOf(const Parameters& parameters, bool secondary);
  void WaitFor(int tensor);
  void Complete(Gather& gather);
  void FreeAll(std::span<const int> tensors) {
    for (const int tensor : tensors) Free(tensor);
  }
  void Free(int tensor);
  void StayBehind(std::int64_t elements);
  void GatherPersistent();

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Operations& operations_;
  HostOffload& offload_;
  const ProcessGroups& groups_;
  const PartitionedTensors& parts_;
  const plan::DeepSpeed& settings_;
  const bool overlap_;
  const DataType type_;
  StreamId gather_stream_ = 0, nccl_stream_ = 0;
  Index communicator_ = program::kNone, secondary_communicator_ = program::kNone;
  Index launched_ = program::kNone, fetched_ = program::kNone;  // events
  Index kept_ = program::kNone, gathered_ = program::kNone;
  Backpressure fetches_;
  Range partition_;
  std::vector<Tensor> tensors_;  // as the model's
  std::vector<int> persistent_;
  std::optional<ParameterCoordinator> coordinator_;
  std::map<std::pair<Parameters, bool>, Gather> gathers_;  // by content; from secondary copies
  std::map<int, Gather*> in_flight_;
  std::deque<std::pair<Index, std::int64_t>> freed_;  // events, elements: perhaps still read
  std::int64_t freed_elements_ = 0;
  std::vector<Index> spare_events_;
};

}  // namespace stepcast::lowering
