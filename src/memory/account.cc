#include "src/memory/account.h"

namespace stepcast::memory {

std::uint32_t StepOfPeak(const program::Program& program, const Account& account,
                         std::uint32_t first, std::uint32_t last) {
  Balance balance;
  for (const Change& change : account.changes) {
    balance.Apply(program, change);
    if (change.step > last) break;
    if (change.step >= first && balance.total() == account.usage.peak) return change.step;
  }
  return account.peak_changes == 0 ? 0 : account.changes[account.peak_changes - 1].step;
}

std::vector<program::Index> BuffersAtPeak(const program::Program& program, const Account& account) {
  std::vector<std::int32_t> blocks(program.buffers.size());
  for (std::size_t i = 0; i < account.peak_changes; ++i) {
    const Change& change = account.changes[i];
    blocks[change.buffer] += change.allocates ? 1 : -1;
  }
  std::vector<program::Index> buffers;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    buffers.insert(buffers.end(), static_cast<std::size_t>(blocks[i]),
                   static_cast<program::Index>(i));
  }
  return buffers;
}

}  // namespace stepcast::memory
