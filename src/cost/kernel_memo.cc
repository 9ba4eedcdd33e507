#include "src/cost/kernel_memo.h"

namespace stepcast::cost {

std::size_t KernelMemo::Hash::operator()(const Key& key) const {
  std::uint64_t hash = key.kind;
  for (const std::int64_t number : {key.batch, key.m, key.n, key.k, key.flops, key.read,
                                    key.written, key.summed_tokens, key.summed_columns}) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

std::uint32_t KernelMemo::Find(const Kernel& kernel) const {
  const auto found = numbers_.find(KeyOf(kernel));
  return found == numbers_.end() ? kNone : found->second;
}

std::uint32_t KernelMemo::Add(const Kernel& kernel, const Demand& demand) {
  const auto number = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({KeyOf(kernel), demand});
  numbers_.emplace(entries_.back().key, number);
  return number;
}

}  // namespace stepcast::cost
