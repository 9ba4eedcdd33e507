#include "src/network/direct_chains.h"

#include <algorithm>

namespace stepcast::network {
namespace {

constexpr int kMostChainsALink = 8;
constexpr std::int64_t kMostLooks = 100'000;  // of one search; every step looks at all GPUs

}  // namespace

DirectChains::DirectChains(const topology::NodeRoutes& routes, std::span<const int> gpus)
    : size_(gpus.size()), links_(size_ * size_), used_(size_ * size_) {
  for (std::size_t a = 0; a < size_; ++a) {
    for (std::size_t b = 0; b < size_; ++b) {
      if (a != b) links_[Between(a, b)] = routes.DirectNvLinks(gpus[a], gpus[b]);
      joined_ = joined_ || links_[Between(a, b)] > 0;
    }
  }
}

std::vector<std::size_t> DirectChains::Lay(std::span<const std::size_t> first,
                                           std::span<const std::size_t> last, bool both_ways) {
  if (!joined_) return {};
  may_end_.assign(size_, false);
  for (const std::size_t position : last) may_end_[position] = true;
  for (chains_a_link_ = 1; chains_a_link_ <= kMostChainsALink; ++chains_a_link_) {
    looks_left_ = kMostLooks;
    for (const std::size_t start : first) {
      visited_.assign(size_, false);
      visited_[start] = true;
      chain_.assign(1, start);
      if (!Extend()) continue;
      for (std::size_t i = 0; i + 1 < size_; ++i) {
        ++used_[Between(chain_[i], chain_[i + 1])];
        if (both_ways) ++used_[Between(chain_[i + 1], chain_[i])];
      }
      return chain_;
    }
  }
  return {};
}

// Depth first.
bool DirectChains::Extend() {
  const std::size_t end = chain_.back();
  if (chain_.size() == size_) return may_end_[end];
  for (std::size_t i = 1; i < size_; ++i) {
    const std::size_t next = (end + i) % size_;
    if (--looks_left_ < 0) return false;
    if (visited_[next] ||
        used_[Between(end, next)] >= chains_a_link_ * links_[Between(end, next)]) {
      continue;
    }
    visited_[next] = true;
    chain_.push_back(next);
    if (Extend()) return true;
    chain_.pop_back();
    visited_[next] = false;
  }
  return false;
}

}  // namespace stepcast::network
