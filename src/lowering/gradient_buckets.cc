#include "src/lowering/gradient_buckets.h"

#include <utility>

namespace stepcast::lowering {

using program::kNone;

void GradientBuckets::SetChannels(std::vector<Channel> channels) {
  channels_ = std::move(channels);
  places_.resize(step_.model().tensors.size());
  buckets_.reserve(64);
}

const GradientBucket& GradientBuckets::Add(std::span<const int> tensors, FlatLayout layout,
                                           const char* what, DataType type, std::int64_t index,
                                           std::size_t channel) {
  const Index name = builder_.AddNumbered("bucket ", buckets_.size());
  const bool packed = layout.tensors.empty();
  std::int64_t end = 0;  // of the tensors before
  auto piece = layout.tensors.begin();
  for (const int tensor : tensors) {
    const std::int64_t elements = step_.model().tensors[tensor].elements;
    if (!packed && elements > 0) end = piece++->offset;
    places_[tensor] = {.bucket = buckets_.size(), .offset = end};
    end += elements;
  }
  GradientBucket& bucket = buckets_.emplace_back();
  bucket.name = name;
  bucket.channel = channel;
  bucket.tensors = tensors;
  bucket.missing = static_cast<int>(tensors.size());
  const program::NameParts names =
      *what == '\0' ? program::NameParts{.first = name} : builder_.Named(name, what);
  bucket.gradients = operations_.AddRange(names, layout.padded(), type,
                                          program::Category::kGradient, layout.exact);
  bucket.own = layout.ranks > 1 ? bucket.gradients.Share(index, layout.shard) : bucket.gradients;
  bucket.layout = std::move(layout);
  if (channels_[channel].reduces()) {
    bucket.ready = builder_.AddEvent(builder_.Named(name, " ready"));
    bucket.reduced = builder_.AddEvent(builder_.Named(name, " reduced"));
  }
  return bucket;
}

bool GradientBuckets::Fill(int tensor) {
  GradientBucket& bucket = buckets_[places_[tensor].bucket];
  if (--bucket.missing > 0) return false;
  bucket.missing = static_cast<int>(bucket.tensors.size());
  return true;
}

void GradientBuckets::Reduce(std::size_t index, bool average) {
  const GradientBucket& bucket = buckets_[index];
  const Channel& channel = channels_[bucket.channel];
  if (!channel.reduces()) return;
  builder_.Wait(channel.stream, bucket.ready);
  if (bucket.layout.ranks > 1) {
    operations_.ReduceScatter(channel.stream, channel.communicator, bucket.own, bucket.gradients,
                              average);
  } else if (channel.communicator != kNone) {
    operations_.AllReduce(channel.stream, channel.communicator, bucket.gradients, average);
  }
  if (channel.replica_communicator != kNone) {
    builder_.WaitForStream(channel.replica_stream, channel.stream, bucket.ready);
    operations_.AllReduce(channel.replica_stream, channel.replica_communicator, bucket.own,
                          average);
  }
  builder_.Record(channel.replica_stream, bucket.reduced);
}

}  // namespace stepcast::lowering
