#include "src/runtime/host/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/runtime/host/random_pages.h"

namespace stepcast::runtime::host {
namespace {

// Blocks are whole pages; large ones whole MiB, so that buffers of nearly equal size share them.
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
  // A block is not split, so a much larger one is left for a buffer that needs it.
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
  STEPCAST_CHECK(held_[buffer].data == nullptr, "a buffer is allocated once before its release");
  const Bytes wanted = buffers_[buffer].size;
  if (in_use_ + wanted > limit_) return Refusal::kLimit;
  const std::int64_t size = Rounded(wanted.count());
  ReturnFinished();
  std::optional<Block> block = TakeCached(size, stream);
  if (!block) {
    // What is cached counts as well: its pages may be there.
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
  STEPCAST_CHECK(block.data != nullptr, "only what is allocated is released");
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
