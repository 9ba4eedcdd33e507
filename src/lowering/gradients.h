#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/data_type.h"
#include "src/lowering/layouts.h"
#include "src/lowering/operations.h"
#include "src/lowering/program_builder.h"
#include "src/lowering/training_step.h"
#include "src/model/model.h"
#include "src/program/data_flow.h"

namespace stepcast::lowering {

// The order in which gradients become ready in backward, and the division of gradients into
// buckets.

// Returns the tensors (indices in Model::tensors) in the order in which their gradients become
// complete. Layers are visited from last to first. Tensors that one kernel completes are in reverse
// registration order, like the hooks of one autograd node. A tied tensor is complete after its last
// contribution. `work_of_layer` is each layer's index in `works`.
std::vector<int> GradientReadyOrder(const model::Model& model,
                                    std::span<const model::LayerWork> works,
                                    std::span<const int> work_of_layer);

struct Bucket {
  std::span<const int> tensors;  // a contiguous part of the order passed to AssignBuckets
  std::int64_t elements = 0;
};

// Divides tensors into buckets by PyTorch's rule (torch/csrc/distributed/c10d/reducer.cpp,
// compute_bucket_assignment_by_size). A bucket is closed when its size reaches the limit, so it may
// exceed the limit by one tensor. The first bucket has a separate limit. With a limit of 0 B, each
// tensor is a bucket. The buckets refer to `order`.
std::vector<Bucket> AssignBuckets(const model::Model& model, std::span<const int> order,
                                  std::int64_t bytes_per_element, Bytes first_limit, Bytes limit);

// A bucket of gradients, which one collective reduces on a separate stream. The sharding strategies
// decide when the bucket is reduced.

struct GradientBucket {
  Index name = program::kNone;  // a text
  std::span<const int> tensors;
  FlatLayout layout;
  Range gradients;
  Range own;  // the reduced elements that this rank keeps: its shard, or all
  std::size_t channel = 0;
  Index ready = program::kNone, reduced = program::kNone;  // indices of events
  int missing = 0;    // number of gradients that are not yet in the bucket
  bool full = false;  // see GradientBuckets::LaunchInOrder
};

class GradientBuckets {
 public:
  GradientBuckets(TrainingStep& step, Operations& operations)
      : step_(step), builder_(step.builder()), operations_(operations) {}

  // A stream and a communicator that reduce buckets. With replicas (hybrid sharding), another
  // stream then sums the shards over the replicas.
  struct Channel {
    StreamId stream = 0;
    Index communicator = program::kNone;  // kNone: there is only one rank
    StreamId replica_stream = 0;
    Index replica_communicator = program::kNone;  // kNone: there are no replicas
    bool reduces() const {
      return communicator != program::kNone || replica_communicator != program::kNone;
    }
  };
  // Sets the channels that reduce buckets. Call this function before the first bucket is added. By
  // default, a bucket uses the first channel.
  void SetChannels(std::vector<Channel> channels);
  void SetGroup(StreamId stream, Index communicator) {
    SetChannels({{.stream = stream, .communicator = communicator, .replica_stream = stream}});
  }

  // Adds a bucket without allocating memory. The name of the bucket's buffer is the bucket's name
  // followed by `what`. If the layout has several shards, the bucket is reduce-scattered, and rank
  // `index` keeps its shard. With one shard, the bucket is all-reduced. If the layout has no
  // pieces, the tensors are contiguous. `tensors` must outlive this object.
  const GradientBucket& Add(std::span<const int> tensors, FlatLayout layout, const char* what,
                            DataType type, std::int64_t index, std::size_t channel = 0);

  // Returns whether any channel reduces over more than one rank.
  bool reduces() const {
    return std::any_of(channels_.begin(), channels_.end(),
                       [](const Channel& channel) { return channel.reduces(); });
  }
  std::span<const GradientBucket> all() const { return buckets_; }
  std::size_t size() const { return buckets_.size(); }
  const GradientBucket& operator[](std::size_t bucket) const { return buckets_[bucket]; }

  std::size_t bucket_of(int tensor) const { return places_[tensor].bucket; }
  std::int64_t offset_of(int tensor) const { return places_[tensor].offset; }
  // Returns the range in the bucket for the gradient of a tensor.
  Range Slot(int tensor) const {
    const Place& place = places_[tensor];
    return buckets_[place.bucket].gradients.Part(place.offset,
                                                 step_.model().tensors[tensor].elements);
  }

  // Marks the tensor's gradient as written. If the bucket is now full, returns true and starts a
  // new count.
  bool Fill(int tensor);
  // Marks the bucket with index `full` as full. Then calls launch(bucket) for each full bucket
  // whose predecessors have been launched, in order. Call EndLaunches after all buckets are
  // launched; it marks all buckets as not full.
  template <typename Launch>
  void LaunchInOrder(std::size_t full, const Launch& launch) {
    buckets_[full].full = true;
    for (; launched_ < size() && buckets_[launched_].full; ++launched_) launch(launched_);
  }
  void EndLaunches() {
    launched_ = 0;
    for (GradientBucket& bucket : buckets_) bucket.full = false;
  }
  // Records the event: the bucket's content is complete and may be reduced.
  void Ready(std::size_t bucket) {
    if (!channels_[buckets_[bucket].channel].reduces()) return;
    builder_.Record(step_.compute(), buckets_[bucket].ready);
  }
  void Reduce(std::size_t bucket, bool average = false);
  // Clears all buckets with one kernel.
  void Zero();
  // Makes the compute stream wait until the bucket is reduced.
  void Await(std::size_t bucket) {
    if (!channels_[buckets_[bucket].channel].reduces()) return;
    builder_.Wait(step_.compute(), buckets_[bucket].reduced);
  }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;  // in elements
  };

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Operations& operations_;
  std::vector<Channel> channels_;
  std::vector<GradientBucket> buckets_;
  std::size_t launched_ = 0;   // see LaunchInOrder
  std::vector<Place> places_;  // indexed by tensor
};

// Dummy weight gradients. If the kernel of a matrix multiplication adds to the main gradient,
// autograd still receives a gradient with the weight's shape, which nothing reads:
//   - Transformer Engine's layers keep one dummy for each shape
//     (transformer_engine/pytorch/module/base.py, get_dummy_wgrad).
//   - Megatron-LM's output layer keeps one dummy until a hook frees it
//     (core/tensor_parallel/layers.py). If the embedding is tied to the output layer, the dummy
//     remains until the embedding's gradient is complete.
//   - Without Transformer Engine's layers, there is no dummy: Megatron-LM returns no gradient
//     to autograd.

class DummyGradients {
 public:
  DummyGradients(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  void WritePrologue();
  // Call BeforeGradient before each kernel that adds to a tensor's main gradient. Call
  // GradientReady when all kernels of a micro-batch have added to this gradient.
  void BeforeGradient(int tensor) {
    if (of_output_layer_.empty()) return;
    OfOutputLayer& own = of_output_layer_[tensor];
    if (own.dummy && !std::exchange(own.exists, true)) {
      operations_.Allocate(step_.compute(), own.dummy);
    }
  }
  void GradientReady(int tensor) {
    if (of_output_layer_.empty()) return;
    OfOutputLayer& own = of_output_layer_[tensor];
    if (std::exchange(own.exists, false)) operations_.Release(own.dummy);
  }

 private:
  struct OfOutputLayer {
    Range dummy;  // empty for other tensors
    bool exists = false;
  };
  void KeepOneForEachShape();
  void AddOfOutputLayer();

  TrainingStep& step_;
  Operations& operations_;
  std::vector<OfOutputLayer> of_output_layer_;  // indexed by tensor; empty if there are no dummies
};

// The full gradients that autograd makes on one rank (PyTorch's Tensor.grad before communication).
// The first micro-batch's gradient of a tensor is written to new memory. Each later micro-batch's
// gradient is a separate tensor, which a kernel then adds. Within one micro-batch, the model's own
// kernels add the contributions to a tied tensor.

class LocalGradients {
 public:
  // Adds buffers and kernels for gradients of `type`, without allocating memory.
  LocalGradients(TrainingStep& step, Operations& operations, DataType type);

  // Allocates memory if needed, and declares the writes of the next kernel. Call this function
  // before the kernel that computes the gradient from the parameters in `source`.
  void Write(int tensor, const program::Elements& source);
  // Returns the range that this micro-batch has written.
  const Range& Written(int tensor) const;
  // Adds the micro-batch's gradient to the gradient of earlier micro-batches. Call this function
  // when the micro-batch's gradient is complete.
  void Complete(int tensor);
  void Release(int tensor);

  bool exists(int tensor) const { return gradients_[tensor].exists; }
  const Range& range(int tensor) const { return gradients_[tensor].own; }
  Index buffer(int tensor) const { return range(tensor).buffer(); }
  program::Elements place(int tensor) const { return range(tensor).place; }

 private:
  struct Gradient {
    Range own;
    Range further;                  // the contribution of a later micro-batch
    std::int64_t micro_batch = -1;  // the micro-batch in which `own` was made
    std::int64_t latest = -1;       // the latest micro-batch that contributed
    bool exists = false;
    bool further_exists = false;
  };

  TrainingStep& step_;
  Operations& operations_;
  std::vector<Gradient> gradients_;  // indexed by tensor
};

// Tensors with copies on several ranks of one model replica. Each rank computes a part of the
// gradient. The parts are summed before the update, so that the copies remain equal (Megatron-LM,
// core/distributed/finalize_model_grads.py):
//  * embeddings tied to the output layer: over the first and the last pipeline stage;
//  * with sequence parallelism, tensors applied to a rank's part of the tokens: over the
//    tensor-parallel ranks. The gradients to sum are packed into one buffer and unpacked afterward.
//
// Without tied tensors, all functions do nothing.
class TiedGradients {
 public:
  explicit TiedGradients(TrainingStep& step) : step_(step), builder_(step.builder()) {}

  // Returns whether the gradients of `tensor`, an index in this stage's model, are summed over
  // stages.
  bool Has(int tensor) const;
  // Returns whether this rank includes the tensor in a sum over all parameters. Only one rank
  // includes each tensor.
  bool Counts(int tensor) const;

  void WritePrologue();
  // Sums the gradients over the ranks, on `stream`, after all work issued on the compute stream.
  // `place_of(tensor)` returns the location of the tensor's gradient, which must be complete for
  // the step.
  template <typename PlaceOf>
  void AddUp(StreamId stream, const PlaceOf& place_of) {
    std::vector<Part> parts;
    for (const int tensor : of_part_of_tokens_) parts.push_back({tensor, place_of(tensor)});
    if (!parts.empty()) AddUpParts(parts);
    for (const int tensor : step_.stage().tied_across()) AddUpOne(stream, tensor, place_of(tensor));
  }

 private:
  struct Part {
    int tensor = 0;
    program::Elements place{};
  };
  void AddUpParts(const std::vector<Part>& parts);
  void AddUpOne(StreamId stream, int tensor, const program::Elements& place);

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Index communicator_ = program::kNone;
  Index ready_ = program::kNone;        // index of an event
  std::vector<int> of_part_of_tokens_;  // indices of tensors
  Index flat_ = program::kNone;         // index of a buffer
  Index tensor_communicator_ = program::kNone;
};

}  // namespace stepcast::lowering
