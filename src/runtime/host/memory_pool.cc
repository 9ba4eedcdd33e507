#include "src/runtime/host/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "src/base/check.h"

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
    : buffers_(buffers), limit_(limit), positions_(std::move(positions)), held_(buffers.size()) {
  // As bf16 the magnitudes lie between 1/128 and 2, as fp16 between 1 and 2, and as fp32 the upper
  // half decides.
  std::mt19937_64 random(seed);
  random_.resize(1 << 16);
  for (std::uint16_t& value : random_) {
    const std::uint64_t bits = random();
    value = static_cast<std::uint16_t>(0x3c00u | (bits & 0x3ffu) | ((bits >> 32) & 0x8000u));
  }
}

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

void MemoryPool::Fill(std::byte* data, std::int64_t size) const {
  const auto bytes = static_cast<std::int64_t>(random_.size() * sizeof(random_[0]));
  for (std::int64_t at = 0; at < size; at += bytes) {
    std::memcpy(data + at, random_.data(), static_cast<std::size_t>(std::min(bytes, size - at)));
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
    const auto map = [size] {
      return mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    };
    // What is cached counts as well: its pages are there.
    void* data = reserved_ + Bytes(size) > limit_ + Bytes(kLarge) ? MAP_FAILED : map();
    if (data == MAP_FAILED) {
      wait();
      ReturnFinished();
      GiveBackCached();
      data = map();
    }
    if (data == MAP_FAILED) return Refusal::kSystem;
    block = Block{static_cast<std::byte*>(data), size, stream, {}};
    Fill(block->data, size);
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
