#include "src/runtime/cuda/device_memory.h"

#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/runtime/cuda/failure.h"

namespace stepcast::runtime::cuda {
namespace {

// CUDACachingAllocator's constants: kMinBlockSize, kSmallSize, kSmallBuffer, kMinLargeAlloc,
// kLargeBuffer, kRoundLarge.
constexpr std::int64_t kBlockUnit = 512;
constexpr std::int64_t kSmallBlock = 1 << 20;
constexpr std::int64_t kSmallSegment = 2 << 20;
constexpr std::int64_t kLargeBlock = 10 << 20;
constexpr std::int64_t kMediumSegment = 20 << 20;
constexpr std::int64_t kSegmentUnit = 2 << 20;

std::int64_t RoundedUp(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

std::int64_t SegmentSize(std::int64_t block) {
  if (block <= kSmallBlock) return kSmallSegment;
  if (block < kLargeBlock) return kMediumSegment;
  return RoundedUp(block, kSegmentUnit);
}

}  // namespace

CachingPool::~CachingPool() {
  for (const auto& [at, block] : blocks_) {
    if (block.before == nullptr) segments_.Give(at);
  }
}

std::byte* CachingPool::Allocate(Bytes size, std::uint16_t stream) {
  const std::int64_t rounded = RoundedUp(std::max<std::int64_t>(size.count(), 1), kBlockUnit);
  const FreeKey key{stream, rounded <= kSmallBlock};
  std::byte* at = TakeFree(rounded, key);
  if (at == nullptr) at = TakeSegment(rounded, key);
  if (at == nullptr) {
    GiveUnusedSegmentsBack();
    at = TakeSegment(rounded, key);
  }
  if (at == nullptr) return nullptr;
  Split(at, rounded);
  blocks_.at(at).free = false;
  return at;
}

// Takes the smallest block that fits; of equal ones, the one with the lowest address.
std::byte* CachingPool::TakeFree(std::int64_t size, FreeKey key) {
  FreeList& list = free_[key];
  const auto found = list.lower_bound({size, nullptr});
  if (found == list.end()) return nullptr;
  std::byte* at = found->second;
  list.erase(found);
  return at;
}

std::byte* CachingPool::TakeSegment(std::int64_t size, FreeKey key) {
  const std::int64_t segment_size = SegmentSize(size);
  std::byte* at = segments_.Take(Bytes(segment_size));
  if (at == nullptr) return nullptr;
  blocks_[at] = {.size = segment_size, .stream = key.first, .small = key.second};
  reserved_ += Bytes(segment_size);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return at;
}

// Returns the bytes beyond `size` to the free list, if there are enough of them.
void CachingPool::Split(std::byte* at, std::int64_t size) {
  Block& block = blocks_.at(at);
  const std::int64_t rest = block.size - size;
  if (block.small ? rest < kBlockUnit : rest <= kSmallBlock) return;
  std::byte* rest_at = at + size;
  Block behind{.size = rest,
               .stream = block.stream,
               .small = block.small,
               .free = true,
               .before = at,
               .after = block.after};
  block.size = size;
  block.after = rest_at;
  if (behind.after != nullptr) blocks_.at(behind.after).before = rest_at;
  free_[{behind.stream, behind.small}].insert({rest, rest_at});
  blocks_[rest_at] = behind;
}

void CachingPool::Release(std::byte* at) {
  const auto found = blocks_.find(at);
  STEPCAST_CHECK(found != blocks_.end() && !found->second.free,
                 "a block must be allocated before it is released");
  const FreeKey key{found->second.stream, found->second.small};
  FreeList& list = free_[key];
  if (std::byte* after = found->second.after; after != nullptr && blocks_.at(after).free) {
    list.erase({blocks_.at(after).size, after});
    Merge(at, after);
  }
  if (std::byte* before = blocks_.at(at).before; before != nullptr && blocks_.at(before).free) {
    list.erase({blocks_.at(before).size, before});
    Merge(before, at);
    at = before;
  }
  Block& block = blocks_.at(at);
  block.free = true;
  list.insert({block.size, at});
}

void CachingPool::Merge(std::byte* front, std::byte* back) {
  Block& first = blocks_.at(front);
  const Block second = blocks_.at(back);
  first.size += second.size;
  first.after = second.after;
  if (second.after != nullptr) blocks_.at(second.after).before = front;
  blocks_.erase(back);
}

void CachingPool::GiveUnusedSegmentsBack() {
  std::vector<std::byte*> unused;
  for (const auto& [at, block] : blocks_) {
    if (block.free && block.before == nullptr && block.after == nullptr) unused.push_back(at);
  }
  for (std::byte* at : unused) {
    const Block& block = blocks_.at(at);
    free_[{block.stream, block.small}].erase({block.size, at});
    reserved_ -= Bytes(block.size);
    blocks_.erase(at);
    segments_.Give(at);
  }
}

namespace {

std::string InMebibytes(Bytes size) {
  return fmt::format("{:.1f} MiB", static_cast<double>(size.count()) / (1 << 20));
}

}  // namespace

std::byte* DeviceMemory::CudaSegments::Take(Bytes size) {
  void* at = nullptr;
  if (cudaMalloc(&at, static_cast<std::size_t>(size.count())) == cudaSuccess) {
    return static_cast<std::byte*>(at);
  }
  cudaGetLastError();
  return nullptr;
}

void DeviceMemory::CudaSegments::Give(std::byte* segment) { cudaFree(segment); }

Attempt<std::unique_ptr<DeviceMemory>> DeviceMemory::Make(const program::Program& program,
                                                          std::span<const cudaStream_t> streams,
                                                          bool pool, Bytes limit) {
  std::unique_ptr<DeviceMemory> made(new DeviceMemory(program, streams, limit));
  if (!pool) return made;
  int device = 0;
  STEPCAST_TRY(Check(cudaGetDevice(&device), "querying the current GPU"));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  STEPCAST_TRY(Check(cudaMemPoolCreate(&made->pool_, &properties), "making a memory pool"));
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  STEPCAST_TRY(
      Check(cudaMemPoolSetAttribute(made->pool_, cudaMemPoolAttrReleaseThreshold, &threshold),
            "setting up a memory pool"));
  // Otherwise CUDA may make a stream wait for another one to reuse its released memory. The program
  // has no such edge.
  int no = 0;
  STEPCAST_TRY(
      Check(cudaMemPoolSetAttribute(made->pool_, cudaMemPoolReuseAllowInternalDependencies, &no),
            "setting up a memory pool"));
  STEPCAST_TRY(Check(cudaStreamCreateWithFlags(&made->release_stream_, cudaStreamNonBlocking),
                     "making a stream"));
  return made;
}

DeviceMemory::~DeviceMemory() {
  for (Place& place : places_) {
    if (place.at != nullptr && !place.cached) cudaFreeAsync(place.at, release_stream_);
  }
  for (const Waiting& waiting : waiting_) {
    for (cudaEvent_t event : waiting.events) cudaEventDestroy(event);
  }
  for (cudaEvent_t event : free_events_) cudaEventDestroy(event);
  if (release_stream_ != nullptr) {
    cudaStreamSynchronize(release_stream_);
    cudaStreamDestroy(release_stream_);
  }
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

Failure DeviceMemory::DoesNotFit(program::Index buffer, const char* why) const {
  const program::Buffer& wanted = program_.buffers[buffer];
  return {fmt::format("out of memory: buffer '{}' needs {}, but the other buffers use {}, and {}",
                      program_.NameOf(wanted), InMebibytes(wanted.size), InMebibytes(in_use_), why),
          true};
}

Attempt<void> DeviceMemory::Allocate(program::Index buffer, std::uint16_t stream) {
  Place& place = places_[buffer];
  STEPCAST_CHECK(place.at == nullptr, "a buffer must be released before it is allocated again");
  const Bytes size = program_.buffers[buffer].size;
  if (limit_ > Bytes(0) && in_use_ + size > limit_) {
    return tl::make_unexpected(
        DoesNotFit(buffer, fmt::format("{} is the limit", InMebibytes(limit_)).c_str()));
  }
  const bool cached = pool_ == nullptr || capturing_;
  if (cached) {
    TakeBackWhatIsDone();
    place.at = cache_.Allocate(size, stream);
    if (place.at == nullptr && !capturing_ && !waiting_.empty()) {
      // Blocks may be waiting for other streams.
      STEPCAST_TRY(Check(cudaDeviceSynchronize(), "waiting for memory"));
      TakeBackWhatIsDone();
      place.at = cache_.Allocate(size, stream);
    }
    if (place.at == nullptr) {
      return tl::make_unexpected(DoesNotFit(buffer, "the GPU has no free block of this size"));
    }
  } else {
    STEPCAST_TAKE(place.at, TakeFromCuda(buffer, stream));
  }
  place.stream = stream;
  place.cached = cached;
  place.also_used_by.clear();
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  return {};
}

Attempt<std::byte*> DeviceMemory::TakeFromCuda(program::Index buffer, std::uint16_t stream) {
  const auto size =
      static_cast<std::size_t>(std::max<std::int64_t>(program_.buffers[buffer].size.count(), 1));
  void* at = nullptr;
  cudaError_t error = cudaMallocFromPoolAsync(&at, size, pool_, streams_[stream]);
  if (error == cudaErrorMemoryAllocation) {
    // Released blocks may not have returned yet.
    cudaGetLastError();
    STEPCAST_TRY(Check(cudaDeviceSynchronize(), "waiting for memory"));
    STEPCAST_TRY(Check(cudaMemPoolTrimTo(pool_, 0), "releasing unused memory"));
    error = cudaMallocFromPoolAsync(&at, size, pool_, streams_[stream]);
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return tl::make_unexpected(DoesNotFit(buffer, "the GPU has no more memory"));
  }
  STEPCAST_TRY(
      Check(error, fmt::format("allocating '{}'", program_.NameOf(program_.buffers[buffer]))));
  return static_cast<std::byte*>(at);
}

Attempt<void> DeviceMemory::Release(program::Index buffer) {
  Place& place = places_[buffer];
  STEPCAST_CHECK(place.at != nullptr, "a buffer must be allocated before it is released");
  if (!place.cached) {
    STEPCAST_TRY(GiveToCuda(place));
  } else if (place.also_used_by.empty()) {
    cache_.Release(place.at);
  } else {
    STEPCAST_TRY(GiveLater(place));
  }
  in_use_ -= program_.buffers[buffer].size;
  place.at = nullptr;
  return {};
}

Attempt<void> DeviceMemory::GiveToCuda(const Place& place) {
  if (capturing_) {
    return tl::make_unexpected(
        Failure{"a step cannot be captured as a graph if it releases buffers of an earlier step"});
  }
  if (place.also_used_by.empty()) {
    return Check(cudaFreeAsync(place.at, streams_[place.stream]), "releasing memory");
  }
  // Release it on a separate stream that waits for all users, so that no user waits for another.
  const char* doing = "releasing memory that several streams used";
  const auto wait_for = [&](std::uint16_t stream) -> Attempt<void> {
    STEPCAST_TAKE(cudaEvent_t event, TakeEvent());
    STEPCAST_TRY(Check(cudaEventRecord(event, streams_[stream]), doing));
    STEPCAST_TRY(Check(cudaStreamWaitEvent(release_stream_, event), doing));
    // A wait refers to the record that existed when it was made, so the event may be reused.
    free_events_.push_back(event);
    return {};
  };
  STEPCAST_TRY(wait_for(place.stream));
  for (const std::uint16_t stream : place.also_used_by) STEPCAST_TRY(wait_for(stream));
  return Check(cudaFreeAsync(place.at, release_stream_), doing);
}

Attempt<void> DeviceMemory::GiveLater(const Place& place) {
  Waiting waiting{.at = place.at};
  // Events cannot be queried during a capture, so the block is not reused.
  if (!capturing_) {
    for (const std::uint16_t stream : place.also_used_by) {
      STEPCAST_TAKE(cudaEvent_t event, TakeEvent());
      waiting.events.push_back(event);
      STEPCAST_TRY(Check(cudaEventRecord(event, streams_[stream]), "releasing memory"));
    }
    waiting_.push_back(std::move(waiting));
  }
  return {};
}

void DeviceMemory::TakeBackWhatIsDone() {
  if (capturing_) return;
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    for (cudaEvent_t event : waiting.events) {
      if (Answered(cudaEventQuery(event)) != cudaSuccess) return false;
    }
    free_events_.insert(free_events_.end(), waiting.events.begin(), waiting.events.end());
    cache_.Release(waiting.at);
    return true;
  });
}

Attempt<cudaEvent_t> DeviceMemory::TakeEvent() {
  if (!free_events_.empty()) {
    cudaEvent_t event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  STEPCAST_TRY(Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
  return event;
}

void DeviceMemory::RecordStream(program::Index buffer, std::uint16_t stream) {
  Place& place = places_[buffer];
  STEPCAST_CHECK(place.at != nullptr, "a buffer must be allocated before a stream uses it");
  if (stream == place.stream) return;
  auto& users = place.also_used_by;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

void DeviceMemory::BeginCapture() {
  capturing_ = true;
  before_capture_.clear();
  for (const Place& place : places_) before_capture_.push_back(place.at);
}

Attempt<void> DeviceMemory::EndCapture() {
  capturing_ = false;
  for (std::size_t b = 0; b < places_.size(); ++b) {
    if (places_[b].at == before_capture_[b]) continue;
    return tl::make_unexpected(
        Failure{fmt::format("the step cannot be captured as a graph, because the address of buffer "
                            "'{}' changes between steps",
                            program_.NameOf(program_.buffers[b]))});
  }
  return {};
}

Bytes DeviceMemory::reserved() const {
  Bytes reserved = cache_.peak_reserved();
  std::uint64_t high = 0;
  if (pool_ != nullptr &&
      cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemHigh, &high) == cudaSuccess) {
    reserved += Bytes(static_cast<std::int64_t>(high));
  }
  return reserved;
}

}  // namespace stepcast::runtime::cuda
