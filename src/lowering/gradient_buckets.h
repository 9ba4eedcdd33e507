#pragma once

#include <algorithm>
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

}  // namespace stepcast::lowering
