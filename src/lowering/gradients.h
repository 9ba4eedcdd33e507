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

// In which order gradients become ready in backward, and which of them share one collective.

// Tensors (indices into Model::tensors) in the order in which their gradients are complete: layers
// from last to first, a layer's kernels in order; a tied tensor when its last contribution is
// there. Tensors that one kernel completes stand in reverse registration order, as autograd's
// hooks of one node do. Every tensor once. `work_of_layer`: which of the works each layer does.
std::vector<int> GradientReadyOrder(const model::Model& model,
                                    std::span<const model::LayerWork> works,
                                    std::span<const int> work_of_layer);

struct Bucket {
  std::span<const int> tensors;  // of the order that was cut into buckets
  std::int64_t elements = 0;
};

// PyTorch's rule (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size):
// append tensors to the open bucket; close it when, after appending, its bytes reach the limit. A
// bucket may thus exceed the limit by up to one tensor. The first bucket has its own limit. A limit
// of 0 B gives one bucket per tensor. The buckets point into `order`.
std::vector<Bucket> AssignBuckets(const model::Model& model, std::span<const int> order,
                                  std::int64_t bytes_per_element, Bytes first_limit, Bytes limit);

// Bucketed reduction: gradients lie in buckets, and each bucket is communicated in one collective
// on a stream of its own. Frameworks differ in when they do it and in what they do around it.

struct GradientBucket {
  Index name = program::kNone;  // a text
  std::span<const int> tensors;
  FlatLayout layout;
  Range gradients;
  Range own;  // of a reduced bucket, what this rank keeps: its shard, or all of it
  std::size_t channel = 0;
  Index ready = program::kNone, reduced = program::kNone;  // events
  int missing = 0;                                         // gradients still to come
};

class GradientBuckets {
 public:
  GradientBuckets(TrainingStep& step, Operations& operations)
      : step_(step), builder_(step.builder()), operations_(operations) {}

  // Where buckets are reduced. Shards are summed over replicas after that, on a stream of their
  // own.
  struct Channel {
    StreamId stream = 0;
    Index communicator = program::kNone;  // kNone: there is one rank
    StreamId replica_stream = 0;
    Index replica_communicator = program::kNone;  // kNone: there are no replicas
    bool reduces() const {
      return communicator != program::kNone || replica_communicator != program::kNone;
    }
  };
  // Before the first bucket. Buckets of the first channel name none.
  void SetChannels(std::vector<Channel> channels);
  void SetGroup(StreamId stream, Index communicator) {
    SetChannels({{.stream = stream, .communicator = communicator, .replica_stream = stream}});
  }

  // Describes a bucket, whose gradients are named `what` behind its own name;
  // allocates nothing. Cut into several ranks' shards it is reduce-scattered, and rank `index`
  // keeps its own; uncut it is all-reduced. A layout without pieces: the tensors lie close
  // together. `tensors` outlive this.
  const GradientBucket& Add(std::span<const int> tensors, FlatLayout layout, const char* what,
                            DataType type, std::int64_t index, std::size_t channel = 0);

  // Whether there is anything to reduce over, for some bucket.
  bool reduces() const {
    return std::any_of(channels_.begin(), channels_.end(),
                       [](const Channel& channel) { return channel.reduces(); });
  }
  std::span<const GradientBucket> all() const { return buckets_; }
  std::size_t size() const { return buckets_.size(); }
  const GradientBucket& operator[](std::size_t bucket) const { return buckets_[bucket]; }

  std::size_t bucket_of(int tensor) const { return places_[tensor].bucket; }
  std::int64_t offset_of(int tensor) const { return places_[tensor].offset; }
  // The gradient of a tensor.
  Range Slot(int tensor) const {
    const Place& place = places_[tensor];
    return buckets_[place.bucket].gradients.Part(place.offset,
                                                 step_.model().tensors[tensor].elements);
  }

  // One more gradient is in its bucket: whether the bucket is full. Full ones begin anew.
  bool Fill(int tensor);
  // What is in the bucket now may be reduced.
  void Ready(std::size_t bucket) {
    if (!channels_[buckets_[bucket].channel].reduces()) return;
    builder_.Record(step_.compute(), buckets_[bucket].ready);
  }
  void Reduce(std::size_t bucket, bool average = false);
  // The compute stream goes on when the bucket is reduced.
  void Await(std::size_t bucket) {
    if (!channels_[buckets_[bucket].channel].reduces()) return;
    builder_.Wait(step_.compute(), buckets_[bucket].reduced);
  }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;  // elements
  };

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Operations& operations_;
  std::vector<Channel> channels_;
  std::vector<GradientBucket> buckets_;
  std::vector<Place> places_;  // by tensor
};

// Where a product adds to the main gradient itself, autograd is still given a gradient of the
// weight's shape, which nothing reads. Transformer Engine's layers keep one for each shape
// (transformer_engine/pytorch/module/base.py, get_dummy_wgrad); the output layer, which is
// Megatron-LM's own, has one until the hook lets it go (core/tensor_parallel/layers.py): where the
// embedding is tied to it, when that has its gradient, too. Nothing without Transformer Engine's
// layers: before them Megatron-LM gave autograd none.

class DummyGradients {
 public:
  DummyGradients(TrainingStep& step, Operations& operations)
      : step_(step), operations_(operations) {}

  void WritePrologue();
  // Before each kernel that adds to the main gradient of a tensor, and when all of a micro-batch
  // have.
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
    Range dummy;  // of other tensors none
    bool exists = false;
  };
  void KeepOneForEachShape();
  void AddOfOutputLayer();

  TrainingStep& step_;
  Operations& operations_;
  std::vector<OfOutputLayer> of_output_layer_;  // by tensor; empty: there are none
};

// The full gradients that autograd makes on one rank, tensor by tensor (PyTorch's Tensor.grad
// before any communication). A tensor's gradient is new memory at its first contribution; what a
// later micro-batch contributes is a tensor of its own that a kernel then adds. Within one
// micro-batch a tied tensor's contributions are added by the model's own kernels.

class LocalGradients {
 public:
  // Describes buffers and kernels; allocates nothing.
  LocalGradients(TrainingStep& step, Operations& operations, DataType type);

  // The kernel about to be issued contributes to the gradient, reading the parameters in `source`:
  // makes room, says what it writes and what it puts there.
  void Write(int tensor, const program::Elements& source);
  // What this micro-batch has written.
  const Range& Written(int tensor) const;
  // The micro-batch's contributions are complete: adds them to those of earlier ones.
  void Complete(int tensor);
  void Release(int tensor);

  bool exists(int tensor) const { return gradients_[tensor].exists; }
  const Range& range(int tensor) const { return gradients_[tensor].own; }
  Index buffer(int tensor) const { return range(tensor).buffer(); }
  program::Elements place(int tensor) const { return range(tensor).place; }

 private:
  struct Gradient {
    Range own;
    Range further;                  // a later micro-batch's contribution
    std::int64_t micro_batch = -1;  // that `own` was made in
    std::int64_t latest = -1;       // micro-batch that contributed
    bool exists = false;
    bool further_exists = false;
  };

  TrainingStep& step_;
  Operations& operations_;
  std::vector<Gradient> gradients_;  // by tensor
};

// Tensors of which several ranks of a copy of the model keep a copy each, and a part of their
// gradients. Those are added up before the update, so that the copies stay the same (Megatron-LM,
// core/distributed/finalize_model_grads.py):
//  * embeddings that are tied to the head, over the first and the last stage of a pipeline;
//  * with sequence parallelism, what is applied to a rank's part of the tokens, over the tensor-
//    parallel ranks: laid into one buffer, and taken out again.
// Without such tensors all calls do nothing.
class TiedGradients {
 public:
  explicit TiedGradients(TrainingStep& step) : step_(step), builder_(step.builder()) {}

  // Whether the gradients of the tensor, of this stage's model, are added up over stages.
  bool Has(int tensor) const;
  // Whether this rank counts the tensor where all parameters are counted once.
  bool Counts(int tensor) const;

  void WritePrologue();
  // Adds the gradients of all of them up, on `stream`, when all that has been issued on the compute
  // stream is done. `place_of`: (tensor) where its gradients of the whole step are.
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
  Index ready_ = program::kNone;        // event
  std::vector<int> of_part_of_tokens_;  // tensors
  Index flat_ = program::kNone;         // buffer
  Index tensor_communicator_ = program::kNone;
};

}  // namespace stepcast::lowering
