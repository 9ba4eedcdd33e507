#pragma once

#include <cstdint>
#include <vector>

namespace stepcast::network {

// A set of links of a network, numbered in order of insertion. Suited for few links of a large
// network: clearing takes constant time (P. Briggs and L. Torczon, An Efficient Representation for
// Sparse Sets, 1993).
class LinkSet {
 public:
  // `links`: number of links of the network.
  explicit LinkSet(int links) : number_(static_cast<std::size_t>(links)) {}

  void Clear() { links_.clear(); }
  // Returns the link's number. Adds the link if it is not in the set.
  std::uint32_t Add(int link) {
    std::uint32_t& number = number_[static_cast<std::size_t>(link)];
    if (number >= links_.size() || links_[number] != link) {
      number = static_cast<std::uint32_t>(links_.size());
      links_.push_back(link);
    }
    return number;
  }
  const std::vector<int>& links() const { return links_; }  // [number]

 private:
  std::vector<std::uint32_t> number_;  // [link]; meaningless for links outside the set
  std::vector<int> links_;
};

}  // namespace stepcast::network
