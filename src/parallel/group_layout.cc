#include "src/parallel/group_layout.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/check.h"

namespace stepcast::parallel {

GroupLayout::GroupLayout(int ranks, const std::vector<Dimension>& dimensions) : ranks_(ranks) {
  STEPCAST_CHECK(ranks >= 1, "a grid must have ranks");
  int extent = 1;
  for (const Dimension& dimension : dimensions) {
    if (dimension.degree == 1) continue;
    STEPCAST_CHECK(dimension.stride >= 1 && dimension.degree >= 1 && dimension.stride % extent == 0,
                   "the stride of a dimension must be a multiple of the extent of the previous "
                   "dimension");
    size_ *= dimension.degree;
    if (!dimensions_.empty() && dimension.stride == extent) {
      dimensions_.back().degree *= dimension.degree;
    } else {
      dimensions_.push_back(dimension);
    }
    extent = dimension.stride * dimension.degree;
  }
  STEPCAST_CHECK(ranks % extent == 0, "the groups of a layout must contain all ranks");
}

GroupLayout GroupLayout::Only(std::vector<int> positions) const {
  STEPCAST_CHECK(positions_.empty() && !positions.empty() &&
                     std::is_sorted(positions.begin(), positions.end()) && positions.front() >= 0 &&
                     positions.back() < size_,
                 "positions must be sorted and must be within the group");
  GroupLayout only = *this;
  if (static_cast<int>(positions.size()) < size_) only.positions_ = std::move(positions);
  return only;
}

std::pair<GroupLayout, GroupLayout> GroupLayout::Split(int count) const {
  std::vector<Dimension> inside, across;
  for (const Dimension& dimension : dimensions_) {
    const int own = std::min(count, dimension.degree);
    STEPCAST_CHECK(count % own == 0 && dimension.degree % own == 0,
                   "the size of a group must be divisible by the length of its runs of neighboring "
                   "ranks");
    inside.push_back({dimension.stride, own});
    across.push_back({dimension.stride * own, dimension.degree / own});
    count /= own;
  }
  STEPCAST_CHECK(count == 1 && positions_.empty(),
                 "all ranks of a run of neighboring ranks must "
                 "be in one group");
  return {GroupLayout(ranks_, inside), GroupLayout(ranks_, across)};
}

bool GroupLayout::Holds(int rank) const {
  return positions_.empty() ||
         std::binary_search(positions_.begin(), positions_.end(), IndexInWhole(rank));
}

int GroupLayout::First(int rank) const {
  return positions_.empty() ? FirstOfWhole(rank) : Ranks(rank).front();
}

int GroupLayout::Index(int rank) const {
  const int index = IndexInWhole(rank);
  if (positions_.empty()) return index;
  return static_cast<int>(std::lower_bound(positions_.begin(), positions_.end(), index) -
                          positions_.begin());
}

std::vector<int> GroupLayout::Ranks(int rank) const {
  const std::vector<int> whole = Whole(rank);
  if (positions_.empty()) return whole;
  std::vector<int> ranks;
  ranks.reserve(positions_.size());
  for (const int position : positions_) ranks.push_back(whole[static_cast<std::size_t>(position)]);
  return ranks;
}

int GroupLayout::FirstOfWhole(int rank) const {
  int first = rank;
  for (const Dimension& dimension : dimensions_) {
    first -= rank / dimension.stride % dimension.degree * dimension.stride;
  }
  return first;
}

int GroupLayout::IndexInWhole(int rank) const {
  int index = 0;
  int scale = 1;
  for (const Dimension& dimension : dimensions_) {
    index += rank / dimension.stride % dimension.degree * scale;
    scale *= dimension.degree;
  }
  return index;
}

std::vector<int> GroupLayout::Whole(int rank) const {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(size_));
  ranks.push_back(FirstOfWhole(rank));
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
    if (FirstOfWhole(rank) == rank) groups.push_back(Ranks(rank));
  }
  return groups;
}

}  // namespace stepcast::parallel
