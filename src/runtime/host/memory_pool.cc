#include "src/runtime/host/memory_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "src/base/check.h"

namespace stepcast::runtime::host {
namespace {

constexpr std::int64_t kPageSize = 4096;
// The size of the file that all memory is mapped from. A process may have some 65,000 mappings, so
// this is enough for 1 TB.
constexpr std::int64_t kFile = 16 << 20;
// The count of distinct numbers; the file repeats them.
constexpr std::int64_t kNumbers = 1 << 16;
constexpr std::int64_t kTable = kNumbers * sizeof(std::uint16_t);
static_assert(kFile % kTable == 0);

const std::vector<std::uint16_t>& Numbers() {
  static const std::vector<std::uint16_t> numbers = [] {
    std::mt19937_64 random(1);
    std::vector<std::uint16_t> drawn(kNumbers);
    for (std::uint16_t& number : drawn) {
      const std::uint64_t bits = random();
      number = static_cast<std::uint16_t>(0x3c00u | (bits & 0x3ffu) | ((bits >> 32) & 0x8000u));
    }
    return drawn;
  }();
  return numbers;
}

// An anonymous file in memory. Returns -1 if the system has none, or does not let the process write
// one of that size (`ulimit -f`).
int MakeFile() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < static_cast<rlim_t>(kFile))
    return -1;
  const int file = memfd_create("random numbers", MFD_CLOEXEC);
  for (std::int64_t at = 0; file >= 0 && at < kFile; at += kTable) {
    if (write(file, Numbers().data(), kTable) == kTable) continue;
    close(file);
    return -1;
  }
  return file;
}

// The same numbers in memory that is written at once.
std::byte* MapFilled(std::int64_t size, std::int64_t from) {
  void* const memory = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const to = static_cast<std::byte*>(memory);
  const auto* const numbers = reinterpret_cast<const std::byte*>(Numbers().data());
  from %= kTable;
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t length = std::min(size - at, kTable - from);
    std::memcpy(to + at, numbers + from, static_cast<std::size_t>(length));
    at += length;
    from = 0;
  }
  return to;
}

}  // namespace

std::byte* MapRandomPages(std::int64_t size, std::uint64_t seed) {
  static const int file = MakeFile();
  constexpr std::int64_t kPages = kFile / kPageSize;
  std::int64_t from = static_cast<std::int64_t>(seed % kPages) * kPageSize;
  if (file < 0) return MapFilled(size, from);
  // Reserves the addresses first, so that the pieces are contiguous.
  void* const reserved = mmap(nullptr, static_cast<std::size_t>(size), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<std::byte*>(reserved);
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t length = std::min(size - at, kFile - from);
    const void* const piece = mmap(memory + at, static_cast<std::size_t>(length),
                                   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, from);
    if (piece == MAP_FAILED) {
      munmap(reserved, static_cast<std::size_t>(size));
      return nullptr;
    }
    at += length;
    from = 0;
  }
  return memory;
}

namespace {

// Block sizes are whole pages, and whole MiB if large, so that buffers of nearly equal size can
// share blocks.
constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kLarge = 1 << 20;

std::int64_t Rounded(std::int64_t size) {
  const std::int64_t unit = size >= kLarge ? kLarge : kPage;
  return std::max(unit, (size + unit - 1) / unit * unit);
}

}  // namespace

MemoryPool::MemoryPool(const std::vector<program::Buffer>& buffers, Bytes limit, std::uint64_t seed,
                       StreamPositions positions)
    : buffers_(buffers),
      limit_(limit),
      seed_(seed),
      positions_(std::move(positions)),
      held_(buffers.size()) {}

MemoryPool::~MemoryPool() {
  GiveBackCached();
  for (Pending& pending : pending_) munmap(pending.block.data, pending.block.size);
  for (Block& block : held_) {
    if (block.data != nullptr) munmap(block.data, block.size);
  }
}

std::optional<MemoryPool::Block> MemoryPool::TakeCached(std::int64_t size, std::uint16_t stream) {
  if (stream >= cached_.size()) return std::nullopt;
  auto& blocks = cached_[stream];
  const auto found = blocks.lower_bound(size);
  // Blocks are not split, so a much larger block is left for a buffer that needs it.
  if (found == blocks.end() || found->first > size + size / 4) return std::nullopt;
  Block block = std::move(found->second);
  blocks.erase(found);
  return block;
}

void MemoryPool::ReturnFinished() {
  std::erase_if(pending_, [this](Pending& pending) {
    for (const Use& use : pending.uses) {
      if (positions_.finished(use.stream) < use.position) return false;
    }
    const std::uint16_t owner = pending.block.owner;
    if (owner >= cached_.size()) cached_.resize(owner + 1u);
    cached_[owner].emplace(pending.block.size, pending.block);
    return true;
  });
}

void MemoryPool::GiveBackCached() {
  for (auto& blocks : cached_) {
    for (auto& [size, block] : blocks) {
      munmap(block.data, block.size);
      reserved_ -= Bytes(size);
    }
    blocks.clear();
  }
}

std::optional<MemoryPool::Refusal> MemoryPool::Allocate(program::Index buffer, std::uint16_t stream,
                                                        const std::function<void()>& wait) {
  STEPCAST_CHECK(held_[buffer].data == nullptr,
                 "a buffer must be released before it is allocated "
                 "again");
  const Bytes wanted = buffers_[buffer].size;
  if (in_use_ + wanted > limit_) return Refusal::kLimit;
  const std::int64_t size = Rounded(wanted.count());
  ReturnFinished();
  std::optional<Block> block = TakeCached(size, stream);
  if (!block) {
    // Cached blocks count too, since their pages may be in use.
    std::byte* data = nullptr;
    if (reserved_ + Bytes(size) <= limit_ + Bytes(kLarge)) data = MapRandomPages(size, seed_);
    if (data == nullptr) {
      wait();
      ReturnFinished();
      GiveBackCached();
      data = MapRandomPages(size, seed_);
    }
    if (data == nullptr) return Refusal::kSystem;
    block = Block{data, size, stream, {}};
    reserved_ += Bytes(size);
    peak_reserved_ = std::max(peak_reserved_, reserved_);
  }
  held_[buffer] = *std::move(block);
  in_use_ += wanted;
  peak_ = std::max(peak_, in_use_);
  return std::nullopt;
}

void MemoryPool::Release(program::Index buffer) {
  Block block = std::exchange(held_[buffer], Block());
  STEPCAST_CHECK(block.data != nullptr, "a buffer must be allocated before it is released");
  in_use_ -= buffers_[buffer].size;
  Pending pending;
  for (const std::uint16_t user : std::exchange(block.users, {})) {
    pending.uses.push_back({user, positions_.issued(user)});
  }
  pending.block = std::move(block);
  pending_.push_back(std::move(pending));
}

void MemoryPool::RecordStream(program::Index buffer, std::uint16_t stream) {
  Block& block = held_[buffer];
  if (stream == block.owner) return;
  if (std::find(block.users.begin(), block.users.end(), stream) == block.users.end()) {
    block.users.push_back(stream);
  }
}

}  // namespace stepcast::runtime::host
