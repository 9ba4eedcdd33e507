#include "src/memory/micro_batch_blocks.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stepcast::memory {
namespace {

using program::Instruction;
using program::kNone;
using program::Opcode;

// Numbers purposes. The blocks that a micro-batch holds at once for a layer's pass in a phase have
// separate purposes, the same ones in every micro-batch.
class Purposes {
 public:
  std::uint32_t Of(const Instruction& allocation) {
    // Not every instruction has a label.
    const std::size_t label = allocation.label == kNone ? 0 : std::size_t{allocation.label} + 1;
    auto& places = places_[static_cast<std::size_t>(allocation.phase)];
    if (places.size() <= label) places.resize(label + 1);
    if (held_.size() <= allocation.micro_batch) held_.resize(allocation.micro_batch + 1U);
    std::vector<bool>& held = held_[allocation.micro_batch];
    std::vector<std::uint32_t>& own = places[label];
    auto free = std::find_if(own.begin(), own.end(), [&](std::uint32_t purpose) {
      return purpose >= held.size() || !held[purpose];
    });
    if (free == own.end()) free = own.insert(free, count_++);
    if (held.size() < count_) held.resize(count_);
    held[*free] = true;
    return *free;
  }

  void Free(const Owner& owner) {
    if (owner.micro_batch != Owner::kBeforeStep) held_[owner.micro_batch][owner.purpose] = false;
  }

 private:
  // [phase][label]
  std::array<std::vector<std::vector<std::uint32_t>>, program::kPhases> places_;
  std::vector<std::vector<bool>> held_;  // by micro-batch and purpose
  std::uint32_t count_ = 0;
};

}  // namespace

std::vector<Owner> OwnersOf(const program::Program& program) {
  std::vector<Owner> owners;
  std::vector<Owner> of_buffer(program.buffers.size());
  Purposes purposes;
  for (const Instruction& instruction : program.step) {
    const bool allocates = instruction.opcode == Opcode::kAllocate;
    if (!allocates && instruction.opcode != Opcode::kRelease) continue;
    Owner& owner = of_buffer[instruction.operand];
    if (allocates) {
      owner = {instruction.micro_batch, purposes.Of(instruction)};
    } else {
      purposes.Free(owner);
    }
    owners.push_back(owner);
  }
  return owners;
}

MicroBatchBlocks::OfMicroBatch& MicroBatchBlocks::At(const Owner& owner, std::int64_t later) {
  const std::size_t micro_batch = owner.micro_batch + static_cast<std::size_t>(later);
  if (micro_batches_.size() <= micro_batch) micro_batches_.resize(micro_batch + 1);
  OfMicroBatch& of = micro_batches_[micro_batch];
  if (of.by_purpose.size() <= owner.purpose) {
    of.by_purpose.resize(owner.purpose + 1U, CachingAllocator::kNoBlock);
  }
  return of;
}

void MicroBatchBlocks::Add(const Owner& owner, std::int64_t later, Block block) {
  OfMicroBatch& of = At(owner, later);
  of.by_purpose[owner.purpose] = block;
  ++of.live;
}

MicroBatchBlocks::Block MicroBatchBlocks::Take(const Owner& owner, std::int64_t later) {
  OfMicroBatch& of = At(owner, later);
  const Block block = std::exchange(of.by_purpose[owner.purpose], CachingAllocator::kNoBlock);
  if (block != CachingAllocator::kNoBlock) --of.live;
  return block;
}

std::vector<std::int64_t> MicroBatchBlocks::StateFrom(std::int64_t later,
                                                      const CachingAllocator& allocator) const {
  std::vector<std::int64_t> state = {allocator.calls().allocations, allocator.calls().flushes};
  for (auto m = static_cast<std::size_t>(later); m < micro_batches_.size(); ++m) {
    if (micro_batches_[m].live == 0) continue;
    state.push_back(-static_cast<std::int64_t>(m) + later - 1);  // no purpose
    const std::vector<Block>& blocks = micro_batches_[m].by_purpose;
    for (std::size_t n = 0; n < blocks.size(); ++n) {
      if (blocks[n] == CachingAllocator::kNoBlock) continue;
      state.insert(state.end(), {static_cast<std::int64_t>(n), allocator.AddressOf(blocks[n]),
                                 allocator.SizeOf(blocks[n])});
    }
  }
  return state;
}

}  // namespace stepcast::memory
