#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/topology/routes.h"

namespace stepcast::network {

// Chains over GPUs of a node that NVLinks join directly, and not each with each: of a DGX-1 the
// order of the GPUs' numbers would leave NVLink. Chain after chain is laid over the links that
// those before it used least.
class DirectChains {
 public:
  // `gpus`: of the node, none twice.
  DirectChains(const topology::NodeRoutes& routes, std::span<const int> gpus);

  // Positions in `gpus`, each once: from one of `first` to one of `last`, neighbours joined by
  // NVLink. `both_ways`: data come back along it. Empty where there is no such chain, or none is
  // found within a bounded search; always empty where no NVLink joins two of the GPUs directly.
  std::vector<std::size_t> Lay(std::span<const std::size_t> first,
                               std::span<const std::size_t> last, bool both_ways);

 private:
  bool Extend();
  std::size_t Between(std::size_t a, std::size_t b) const { return a * size_ + b; }

  std::size_t size_;
  std::vector<int> links_;  // [Between(a, b)]: NVLinks from a to b
  std::vector<int> used_;   // [Between(a, b)]: by chains laid before
  bool joined_ = false;

  // Of one search.
  std::vector<bool> may_end_;
  std::vector<bool> visited_;
  std::vector<std::size_t> chain_;
  int chains_a_link_ = 0;  // at most
  std::int64_t looks_left_ = 0;
};

}  // namespace stepcast::network
