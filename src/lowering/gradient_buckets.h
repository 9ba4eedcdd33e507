#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/lowering/flat_layout.h"
#include "src/lowering/operations.h"
#include "src/lowering/training_step.h"

// Bucketed reduction: gradients lie in buckets, and each bucket is communicated in one collective
// on a stream of its own. Frameworks differ in when they do it and in what they do around it.
namespace stepcast::lowering {

struct GradientBucket {
  Index name = program::kNone;  // a text
  std::span<const int> tensors;
  FlatLayout layout;
  Range gradients;
  Range own;  // of a reduced bucket, what this rank keeps: its shard, or all of it
  Index ready = program::kNone, reduced = program::kNone;  // events
  int missing = 0;                                         // gradients still to come
};

class GradientBuckets {
 public:
  GradientBuckets(TrainingStep& step, Operations& operations)
      : step_(step), builder_(step.builder()), operations_(operations) {}

  // Where buckets are reduced; kNone: there is one rank. Shards are summed over replicas after
  // that, on a stream of their own; kNone: there are none.
  void SetGroups(StreamId stream, Index communicator, StreamId replica_stream,
                 Index replica_communicator);
  void SetGroup(StreamId stream, Index communicator) {
    SetGroups(stream, communicator, stream, program::kNone);
  }

  // Describes a bucket, whose gradients are named `what` behind its own name;
  // allocates nothing. Cut into several ranks' shards it is reduce-scattered, and rank `index`
  // keeps its own; uncut it is all-reduced. A layout without pieces: the tensors lie close
  // together. `tensors` outlive this.
  const GradientBucket& Add(std::span<const int> tensors, FlatLayout layout, const char* what,
                            DataType type, std::int64_t index);

  // Whether there is anything to reduce over.
  bool reduces() const {
    return communicator_ != program::kNone || replica_communicator_ != program::kNone;
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
  void Ready(std::size_t bucket) { builder_.Record(step_.compute(), buckets_[bucket].ready); }
  void Reduce(std::size_t bucket, bool average = false);
  // The compute stream goes on when the bucket is reduced.
  void Await(std::size_t bucket) { builder_.Wait(step_.compute(), buckets_[bucket].reduced); }

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;  // elements
  };

  TrainingStep& step_;
  ProgramBuilder& builder_;
  Operations& operations_;
  StreamId stream_ = 0, replica_stream_ = 0;
  Index communicator_ = program::kNone, replica_communicator_ = program::kNone;
  std::vector<GradientBucket> buckets_;
  std::vector<Place> places_;  // by tensor
};

}  // namespace stepcast::lowering
