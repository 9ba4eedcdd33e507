#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "src/lowering/backpressure.h"
#include "src/lowering/host_offload.h"
#include "src/lowering/local_gradients.h"
#include "src/lowering/operations.h"
#include "src/lowering/partitioned_tensors.h"
#include "src/lowering/process_groups.h"
#include "src/lowering/training_step.h"

// Gradients at DeepSpeed's stage 3: a bucket that fills as they are made, what it is reduced with,
// and this rank's parts, in its flat gradients or on the host (deepspeed/runtime/zero/stage3.py:
// __add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads, partition_grads; with
// zero_quantized_gradients, runtime/comm/coalesced_collectives.py: all_to_all_quant_reduce).
namespace stepcast::lowering {

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
