#include "src/lowering/gradient_buckets.h"

#include <utility>

namespace stepcast::lowering {

using program::kNone;

void GradientBuckets::SetGroups(StreamId stream, Index communicator, StreamId replica_stream,
                                Index replica_communicator) {
  stream_ = stream;
  communicator_ = communicator;
  replica_stream_ = replica_stream;
  replica_communicator_ = replica_communicator;
  places_.resize(step_.model().tensors.size());
  buckets_.reserve(64);
}

const GradientBucket& GradientBuckets::Add(std::span<const int> tensors, FlatLayout layout,
                                           const char* what, DataType type, std::int64_t index) {
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
  bucket.tensors = tensors;
  bucket.missing = static_cast<int>(tensors.size());
  const program::NameParts names =
      *what == '\0' ? program::NameParts{.first = name} : builder_.Named(name, what);
  bucket.gradients = operations_.AddRange(names, layout.padded(), type,
                                          program::Category::kGradient, layout.exact);
  bucket.own = layout.ranks > 1 ? bucket.gradients.Share(index, layout.shard) : bucket.gradients;
  bucket.layout = std::move(layout);
  if (reduces()) {
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
  builder_.Wait(stream_, bucket.ready);
  if (bucket.layout.ranks > 1) {
    operations_.ReduceScatter(stream_, communicator_, bucket.own, bucket.gradients, average);
  } else if (communicator_ != kNone) {
    operations_.AllReduce(stream_, communicator_, bucket.gradients, average);
  }
  if (replica_communicator_ != kNone) {
    builder_.WaitForStream(replica_stream_, stream_, bucket.ready);
    operations_.AllReduce(replica_stream_, replica_communicator_, bucket.own, average);
  }
  builder_.Record(replica_stream_, bucket.reduced);
}

}  // namespace stepcast::lowering
