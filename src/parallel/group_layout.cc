#include "src/parallel/group_layout.h"

#include <cstddef>

#include "src/base/check.h"

namespace stepcast::parallel {

GroupLayout::GroupLayout(int ranks, const std::vector<Dimension>& dimensions) : ranks_(ranks) {
  STEPCAST_CHECK(ranks >= 1, "a grid has ranks");
  int extent = 1;
  for (const Dimension& dimension : dimensions) {
    if (dimension.degree == 1) continue;
    STEPCAST_CHECK(dimension.stride >= 1 && dimension.degree >= 1 && dimension.stride % extent == 0,
                   "a dimension begins where the one before it ends, or further out");
    size_ *= dimension.degree;
    if (!dimensions_.empty() && dimension.stride == extent) {
      dimensions_.back().degree *= dimension.degree;
    } else {
      dimensions_.push_back(dimension);
    }
    extent = dimension.stride * dimension.degree;
  }
  STEPCAST_CHECK(ranks % extent == 0, "groups of one layout hold all ranks");
}

int GroupLayout::First(int rank) const {
  int first = rank;
  for (const Dimension& dimension : dimensions_) {
    first -= rank / dimension.stride % dimension.degree * dimension.stride;
  }
  return first;
}

int GroupLayout::Index(int rank) const {
  int index = 0;
  int scale = 1;
  for (const Dimension& dimension : dimensions_) {
    index += rank / dimension.stride % dimension.degree * scale;
    scale *= dimension.degree;
  }
  return index;
}

std::vector<int> GroupLayout::Ranks(int rank) const {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(size_));
  ranks.push_back(First(rank));
  for (const Dimension& dimension : dimensions_) {
    const std::size_t inner = ranks.size();
    for (int i = 1; i < dimension.degree; ++i) {
      for (std::size_t k = 0; k < inner; ++k) ranks.push_back(ranks[k] + i * dimension.stride);
    }
  }
  return ranks;
}

std::vector<std::vector<int>> GroupLayout::Groups() const {
  std::vector<std::vector<int>> groups;
  groups.reserve(static_cast<std::size_t>(this->groups()));
  for (int rank = 0; rank < ranks_; ++rank) {
    if (First(rank) == rank) groups.push_back(Ranks(rank));
  }
  return groups;
}

}  // namespace stepcast::parallel
