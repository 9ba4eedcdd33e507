#include "src/lowering/operations.h"

#include <algorithm>

#include "src/lowering/step_parts.h"

namespace stepcast::lowering {

Range Operations::AddRange(const program::NameParts& name, std::int64_t elements, DataType type,
                           program::Category category, std::int64_t exact) {
  const Index buffer =
      builder_.AddBuffer(name, BytesOf(elements, type), category, BytesOf(elements - exact, type));
  return {At(buffer, 0, type), elements};
}

Range Operations::AddShard(const program::NameParts& name, std::int64_t elements, DataType type,
                           program::Category category, std::int64_t exact, std::int64_t ranks) {
  const Bytes size = BytesOf(elements, type);
  const Bytes share(exact * SizeOf(type) / ranks);
  return {At(builder_.AddBuffer(name, size, category, size - share), 0, type), elements};
}

void Operations::Run(StreamId stream, const char* name) {
  builder_.Run(stream, KernelOf(name));
  read_ = written_ = Bytes();
  access_ = Access::kPlain;
}

Index Operations::KernelOf(const char* name) {
  const auto same = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.read == read_ && known.written == written_ && known.name == name &&
           known.type == type_ && known.access == access_;
  });
  if (same != known_.end()) return same->kernel;
  Kernel described = MemoryKernel(name, type_, read_, written_);
  described.access = access_;
  const Index kernel = builder_.AddKernel(std::move(described));
  known_.push_back({.read = read_,
                    .written = written_,
                    .name = name,
                    .type = type_,
                    .access = access_,
                    .kernel = kernel});
  return kernel;
}

void Operations::AllReduce(StreamId stream, Index communicator, const Range& range, bool average) {
  Communicate(stream, CollectiveKind::kAllReduce, communicator, range, range, range, average);
}

void Operations::ReduceScatter(StreamId stream, Index communicator, const Range& part,
                               const Range& whole, bool average) {
  Communicate(stream, CollectiveKind::kReduceScatter, communicator, part, whole, whole, average);
}

void Operations::AllGather(StreamId stream, Index communicator, const Range& whole,
                           const Range& part) {
  Communicate(stream, CollectiveKind::kAllGather, communicator, whole, part, whole, false);
}

void Operations::Communicate(StreamId stream, CollectiveKind kind, Index communicator,
                             const Range& target, const Range& source, const Range& whole,
                             bool average) {
  if (builder_.describes_data_flow()) {
    builder_.With(Collected(target.place, source.place, whole.elements));
  }
  if (target.buffer() == source.buffer()) {
    Use(whole, true);
  } else {
    Use(source, false);
    Use(target, true);
  }
  builder_.Communicate(stream,
                       builder_.AddCollective({.kind = kind,
                                               .communicator = communicator,
                                               .bytes = whole.size(),
                                               .data_type = whole.type(),
                                               .average = average}),
                       std::span<const program::BufferUse>());
}

}  // namespace stepcast::lowering
