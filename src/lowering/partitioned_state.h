#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/lowering/gradients.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/program_builder.h"
#include "src/lowering/step_parts.h"
#include "src/lowering/training_step.h"

namespace stepcast::lowering {

// Limits how far the host runs ahead of the device: the host waits for the third-latest recorded
// event. DeepSpeed's stage 3 has one queue of events for gathers and one for reductions.
class Backpressure {
 public:
  void AddEvents(ProgramBuilder& builder, const std::string& name) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      events_[i] = builder.AddEvent(name + " " + std::to_string(i));
    }
  }
  void Wait(ProgramBuilder& builder) const {
    if (count_ > kOpen) builder.HostWait(events_[(count_ - kOpen - 1) % events_.size()]);
  }
  void Record(ProgramBuilder& builder, StreamId stream) {
    builder.Record(stream, events_[count_++ % events_.size()]);
  }

 private:
  static constexpr std::size_t kOpen = 2;
  std::array<Index, kOpen + 2> events_{};
  std::size_t count_ = 0;
};

// Parameters or gradients at DeepSpeed's stage 3. Every tensor is divided among all ranks. A rank's
// parts are contiguous in its partition, in registration order.
class PartitionedState {
 public:
  // Returns this rank's part of a tensor, with its offset in the partition.
  Piece Own(int tensor) const { return parts_.Own(BlockOf(tensor), groups_.shard_index()); }
  // Returns the range that contains all parts of this rank.
  const Range& partition() const { return partition_; }

 protected:
  PartitionedState(TrainingStep& step, Operations& operations, HostOffload& offload,
                   const ProcessGroups& groups, const BlockLayout& parts)
      : step_(step),
        builder_(step.builder()),
        operations_(operations),
        offload_(offload),
        groups_(groups),
        parts_(parts),
        settings_(step.plan().data_parallel.deepspeed),
        overlap_(step.plan().data_parallel.overlap) {}

  // Adds the partition, and allocates it on the device unless `on_host` is true.
  void AddPartition(const char* name, DataType type, program::Category category, bool on_host);

  std::int64_t Elements(int tensor) const { return BlockOf(tensor).elements; }
  // Returns the number of elements of one rank's part of a tensor, with padding.
  std::int64_t PartLength(int tensor) const { return BlockOf(tensor).length; }
  Range PartOf(int tensor) const {
    return partition_.Part(BlockOf(tensor).offset, PartLength(tensor));
  }
  Range Add(const char* name, std::int64_t elements, DataType type, program::Category category) {
    return operations_.AddRange({.first = builder_.AddText(name)}, elements, type, category);
  }

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Operations& operations_;
  HostOffload& offload_;
  const ProcessGroups& groups_;
  const BlockLayout& parts_;  // indexed by tensor of the model
  const plan::DeepSpeed& settings_;
  const bool overlap_;
  Range partition_;

 private:
  const BlockLayout::Block& BlockOf(int tensor) const {
    return parts_.blocks()[static_cast<std::size_t>(tensor)];
  }
};

// Parameters at DeepSpeed's stage 3: this rank's parts, and the gathers and frees around modules
// (deepspeed/runtime/zero/partition_parameters.py, partitioned_param_coordinator.py; see
// framework_steps.h for the versions).
//   - With zero_hpz_partition_size, small groups of ranks share a secondary copy, from which
//     backward gathers.
//   - With zero_quantized_weights, 8-bit integers are sent.
//   - With offload_param, parts are copied from the host, even if a single rank has nothing to
//     gather (NoGatherHandle, NoGatherCoalescedHandle).

// Decides which parameters DeepSpeed's stage 3 gathers and frees around every module. DeepSpeed
// records the order of the modules in a micro-batch
// (deepspeed/runtime/zero/partitioned_param_coordinator.py @ 00a31c99), and uses the recorded order
// from the third micro-batch on.

struct CoordinatorOptions {
  std::int64_t prefetch = 0;   // elements to prefetch, rounded up to complete parameters
  std::int64_t max_live = 0;   // elements; prefetch stops at this number of gathered elements
  std::int64_t max_reuse = 0;  // elements; parameters reused within this distance stay gathered
};

class ParameterCoordinator {
 public:
  using Parameters = std::vector<int>;  // indices of tensors, ascending

  // `visits` has the parameters of each module execution in a micro-batch, in order. `elements` and
  // `persistent` are indexed by parameter. Persistent parameters remain gathered.
  ParameterCoordinator(std::vector<Parameters> visits, std::vector<std::int64_t> elements,
                       std::vector<bool> persistent, const CoordinatorOptions& options);

  void BeginMicroBatch();

  struct Fetched {
    Parameters gather{};    // needed now, not requested
    Parameters wait{};      // needed now, and already in flight
    Parameters prefetch{};  // to request in advance
  };
  // Returns the gathers and waits before the next visit. Call this function before each visit.
  Fetched Fetch();
  // Returns the parameters to free after the last fetched visit. Call this function after this
  // visit.
  Parameters Release();
  // Returns the parameters that no Release returned, because the input of their module needs no
  // gradient. Call this function after backward.
  Parameters ReleaseRest();

 private:
  enum class Status : std::uint8_t { kAway, kInFlight, kHere };
  struct Entry {
    int parameter = 0;
    std::int64_t visit = 0;
  };

  void Ask(int parameter);
  void Free(int parameter);

  const std::vector<Parameters> visits_;
  const std::vector<std::int64_t> elements_;
  const std::vector<bool> persistent_;
  const CoordinatorOptions options_;

  std::vector<Status> status_;
  std::deque<Entry> queue_;                // uses that Fetch has not processed
  std::vector<std::int64_t> fetched_for_;  // by parameter: latest visit processed by Fetch
  std::int64_t live_ = 0;  // elements gathered or in flight, without persistent parameters
  std::int64_t next_ = 0;  // next visit
};

class PartitionedParameters : public PartitionedState {
 public:
  using Parameters = ParameterCoordinator::Parameters;

  PartitionedParameters(TrainingStep& step, Operations& operations, HostOffload& offload,
                        const ProcessGroups& groups, const BlockLayout& parts);

  // Write the prologue. Call these functions in this order.
  void SetStreams(StreamId gather_stream, StreamId nccl_stream, Index communicator);
  void AddEvents();
  void AddPartition();  // allocates the partition unless it is on the host
  void AddTensors();
  void SetVisits(std::vector<Parameters> visits);

  void BeginMicroBatch() { coordinator_->BeginMicroBatch(); }
  // Gather and free parameters as the coordinator decides. Call Fetch before each visit, Release
  // after each visit, and ReleaseRest after backward.
  void Fetch();
  void Release() { FreeAll(coordinator_->Release()); }
  void ReleaseRest() { FreeAll(coordinator_->ReleaseRest()); }
  void ReleasePersistent() { FreeAll(persistent_); }
  // Marks secondary copies as stale and gathers the small parameters again. Call this function
  // after the update.
  void Renew();

  // Returns the range from which kernels read a parameter.
  Range Place(int tensor) const {
    return (ReadInPlace() ? PartOf(tensor) : tensors_[tensor].full).Part(0, Elements(tensor));
  }

 private:
  struct Tensor {
    bool persistent = false;
    Range full;
    Range secondary;  // this rank's part of the secondary copy
    bool has_secondary = false;
  };
  // The parameters that one collective gathers, from all ranks or from the ranks that share a
  // secondary copy.
  struct Gather {
    Parameters parameters;
    bool secondary = false;
    Index communicator = program::kNone;
    std::int64_t ranks = 0, index = 0;  // size of the group, and this rank's position in the group
    std::int64_t part = 0;              // elements per rank
    Range staged;                       // this rank's parts, copied from the host
    Range flat;                         // the gathered result for several parameters
    Range packed, flat_packed, scales;  // as 8-bit integers
    Index gathered = program::kNone;    // index of an event
    int waiting = 0;                    // number of parameters not yet waited for
    bool complete = false;
  };

  // Returns whether kernels read the rank's part directly: there is only one rank, and the part is
  // on the device.
  bool ReadInPlace() const { return parts_.ranks() == 1 && !offload_.parameters(); }
  bool HasSecondary() const;
  // Returns the number of elements of each rank's part, with padding, if the tensor is divided
  // among the gather's ranks.
  std::int64_t LengthIn(const Gather& gather, int tensor) const {
    return PartLength(tensor) * parts_.ranks() / gather.ranks;
  }
  // Returns the number of elements of this rank's part, without padding, if the tensor is divided
  // among the gather's ranks.
  std::int64_t OwnLength(int tensor, const Gather& gather) const;
  Range SourceOf(int tensor, const Gather& gather) const {
    return gather.secondary ? tensors_[tensor].secondary : PartOf(tensor);
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

  const DataType type_;
  StreamId gather_stream_ = 0, nccl_stream_ = 0;
  Index communicator_ = program::kNone, secondary_communicator_ = program::kNone;
  Index launched_ = program::kNone, fetched_ = program::kNone;  // indices of events
  Index kept_ = program::kNone, gathered_ = program::kNone;
  Backpressure fetches_;
  parallel::GroupLayout sharers_;  // the ranks that share a secondary copy
  std::vector<Tensor> tensors_;    // indexed by tensor of the model
  std::vector<int> persistent_;
  std::optional<ParameterCoordinator> coordinator_;
  // The gathers, indexed by parameters and by whether secondary copies are gathered.
  std::map<std::pair<Parameters, bool>, Gather> gathers_;
  std::map<int, Gather*> in_flight_;
  // Pairs of an event and a number of freed elements, which the device may read until the event.
  std::deque<std::pair<Index, std::int64_t>> freed_;
  std::int64_t freed_elements_ = 0;
  std::vector<Index> spare_events_;
};

// Gradients at DeepSpeed's stage 3. In backward, gradients fill a bucket, which is then reduced.
// This rank's parts are then stored in flat gradients on the device or on the host
// (deepspeed/runtime/zero/stage3.py: __add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads,
// partition_grads; with zero_quantized_gradients, runtime/comm/coalesced_collectives.py:
// all_to_all_quant_reduce).

class PartitionedGradients : public PartitionedState {
 public:
  PartitionedGradients(TrainingStep& step, Operations& operations, HostOffload& offload,
                       const ProcessGroups& groups, const BlockLayout& parts);

  // Write the prologue. Call these functions in this order.
  void SetStreams(StreamId reduce_stream, Index communicator);
  void AddEvents();
  void AddPartition();

  void Write(int tensor, const program::Elements& source) { gradients_.Write(tensor, source); }
  // Adds the tensor's gradient to the bucket. Call this function when the gradient of the current
  // micro-batch is complete.
  void Ready(int tensor);
  // Reduces the remaining gradients and makes the host wait for these reductions. Call this
  // function after backward.
  void Finish();
  // Makes the host wait for the kernels that compute the gradients.
  void AwaitCompute();

 private:
  // A gradient in the bucket. A gradient larger than the bucket is reduced without a copy to the
  // bucket.
  struct Entry {
    int tensor = 0;
    Range place;
    bool alone = false;  // larger than the bucket
  };
  // A tensor with a gradient that is exchanged as 4-bit integers, first inside nodes, then between
  // nodes.
  struct QuantisedExchange {
    Range packed, exchanged, summed, result;
    program::Collective inside, inside_scales, across, across_scales;
  };

  std::int64_t RanksOfNode() const;
  bool ExchangesQuantised() const;
  bool CanBeExchanged(int tensor) const;
  void Free(int tensor);

  void Reduce();
  void ReduceScatter(std::span<const Entry> entries);
  // Reorders the entries so that each rank's parts are contiguous.
  Range Interleave(std::span<const Entry> entries, std::int64_t part, std::int64_t elements);
  void AllReduceBucket();
  void Exchange(const Entry& entry);
  const QuantisedExchange& ExchangeOf(int tensor);
  // Stores this rank's part of a reduced gradient. The reduced gradient begins at `source`.
  void Keep(int tensor, const program::Elements& source);
  void KeepOnHost(int tensor, const Range& reduced);

  const DataType reduced_in_, kept_in_;
  StreamId reduce_stream_ = 0;
  Index communicator_ = program::kNone;
  Index node_communicator_ = program::kNone, rail_communicator_ = program::kNone;
  Index made_ = program::kNone, reduced_ = program::kNone;  // indices of events
  Backpressure reductions_;
  LocalGradients gradients_;
  Range bucket_;
  Range transit_, widened_;  // for copies between device and host
  std::vector<Entry> entries_;
  std::int64_t bucket_elements_ = 0;
  std::map<std::vector<int>, Range> interleaved_;  // indexed by tensors of the bucket
  std::map<int, QuantisedExchange> exchanges_;     // indexed by tensor
};

}  // namespace stepcast::lowering
