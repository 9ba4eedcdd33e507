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

// The host waits for the event that was recorded three records ago: at most so many are open
// (DeepSpeed's stage 3, queues of events behind gathers and reductions).
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

// Parameters at DeepSpeed's stage 3: this rank's parts, and what is gathered and freed around
// modules as the coordinator says (deepspeed/runtime/zero/partition_parameters.py,
// partitioned_param_coordinator.py; stage3.h names the versions). With zero_hpz_partition_size few
// ranks share a secondary copy, from which backward gathers; with zero_quantized_weights 8-bit
// integers are sent; with offload_param parts come from the host, to a single rank as well, which
// then has nothing to gather (NoGatherHandle, NoGatherCoalescedHandle).

// Which parameters DeepSpeed's stage 3 gathers and frees around every module, once it has learned
// the order in which a micro-batch visits them (deepspeed/runtime/zero/
// partitioned_param_coordinator.py @ 00a31c99; the order is known from the third micro-batch on).

struct CoordinatorOptions {
  std::int64_t prefetch = 0;   // elements asked for ahead, at least: whole parameters are
  std::int64_t max_live = 0;   // elements: nothing is asked for ahead beyond
  std::int64_t max_reuse = 0;  // elements between two uses within which a parameter stays
};

class ParameterCoordinator {
 public:
  using Parameters = std::vector<int>;  // ascending

  // `visits`: the parameters of each module run of a micro-batch, in order. `elements` and
  // `persistent` (those stay gathered) are by parameter.
  ParameterCoordinator(std::vector<Parameters> visits, std::vector<std::int64_t> elements,
                       std::vector<bool> persistent, const CoordinatorOptions& options);

  void BeginMicroBatch();

  struct Fetched {
    Parameters gather{};    // needed now, not requested before
    Parameters wait{};      // needed now, on their way
    Parameters prefetch{};  // asked for ahead
  };
  // Before the next visit.
  Fetched Fetch();
  // After the visit last fetched: what is freed.
  Parameters Release();
  // After backward: what was never freed, because gradients of the module's input were not needed.
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
  std::deque<Entry> queue_;                // uses that no fetch has looked at yet
  std::vector<std::int64_t> fetched_for_;  // by parameter: the latest visit that was looked at
  std::int64_t live_ = 0;                  // elements here or in flight, persistent ones aside
  std::int64_t next_ = 0;                  // visit
};

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

// Gradients at DeepSpeed's stage 3: a bucket that fills as they are made, what it is reduced with,
// and this rank's parts, in its flat gradients or on the host (deepspeed/runtime/zero/stage3.py:
// __add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads, partition_grads; with
// zero_quantized_gradients, runtime/comm/coalesced_collectives.py: all_to_all_quant_reduce).

class PartitionedGradients {
 public:
  PartitionedGradients(TrainingStep& step, Operations& operations, HostOffload& offload,
                       const ProcessGroups& groups, const PartitionedTensors& parts);

  // Prologue, in this order.
  void SetStreams(StreamId reduce_stream, Index communicator);
  void AddEvents();
  void AddPartition();

  void Write(int tensor, const program::Elements& source) { gradients_.Write(tensor, source); }
  // The tensor's gradient of this micro-batch is complete.
  void Ready(int tensor);
  // After backward: what is left is reduced, and the host waits.
  void Finish();
  // The compute stream has issued what gradients depend on: the host waits for it.
  void AwaitCompute();

  // This rank's parts of the reduced gradients.
  const Range& partition() const { return partition_; }

 private:
  // A gradient in the bucket, or beside it where it is too large.
  struct Entry {
    int tensor = 0;
    Range place;
    bool alone = false;  // still where backward made it
  };
  // A tensor's gradient exchanged as 4-bit integers, inside nodes and then across them.
  struct QuantisedExchange {
    Range packed, exchanged, summed, result;
    program::Collective inside, inside_scales, across, across_scales;
  };

  std::int64_t Elements(int tensor) const { return step_.model().tensors[tensor].elements; }
  std::int64_t PartLength(int tensor) const { return parts_.tensors[tensor].shard.length(); }
  std::int64_t RanksOfNode() const;
  bool ExchangesQuantised() const;
  bool CanBeExchanged(int tensor) const;
  void Free(int tensor);

  void Reduce();
  void ReduceScatter(std::span<const Entry> entries);
  // Puts the ranks' parts behind one another.
  Range Interleave(std::span<const Entry> entries, std::int64_t part, std::int64_t elements);
  void AllReduceBucket();
  void Exchange(const Entry& entry);
  const QuantisedExchange& ExchangeOf(int tensor);
  // This rank's part of a reduced gradient begins at `source`.
  void Keep(int tensor, const program::Elements& source);
  void KeepOnHost(int tensor, const Range& reduced);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Operations& operations_;
  HostOffload& offload_;
  const ProcessGroups& groups_;
  const PartitionedTensors& parts_;
  const plan::DeepSpeed& settings_;
  const bool overlap_;
  const DataType reduced_in_, kept_in_;
  StreamId reduce_stream_ = 0;
  Index communicator_ = program::kNone;
  Index node_communicator_ = program::kNone, rail_communicator_ = program::kNone;
  Index made_ = program::kNone, reduced_ = program::kNone;  // events
  Backpressure reductions_;
  LocalGradients gradients_;
  Range partition_, bucket_;
  Range transit_, widened_;  // between device and host
  std::vector<Entry> entries_;
  std::int64_t bucket_elements_ = 0;
  std::map<std::vector<int>, Range> interleaved_;  // by content
  std::map<int, QuantisedExchange> exchanges_;     // by tensor
};

}  // namespace stepcast::lowering
