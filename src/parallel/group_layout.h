#pragma once

#include <vector>

// Which ranks form a group, for all ranks of a grid at once.
namespace stepcast::parallel {

// One group in terms of shape and strides, as layouts of tensors are written: rank r's group has
// the ranks that differ from r in their coordinates along these dimensions alone. Groups of one
// layout are disjoint, of equal size, and together hold all ranks of the grid: they are *siblings*,
// which run the same collectives at the same time.
//
//   ranks 8, {stride 1, degree 4}                  {0 1 2 3} {4 5 6 7}
//   ranks 8, {stride 4, degree 2}                  {0 4} {1 5} {2 6} {3 7}
//   ranks 8, {stride 1, degree 2}, {stride 4, 2}   {0 1 4 5} {2 3 6 7}
class GroupLayout {
 public:
  struct Dimension {
    int stride = 1;
    int degree = 1;
    friend bool operator==(const Dimension&, const Dimension&) = default;
  };

  // Nothing is said about other ranks.
  GroupLayout() = default;
  // Dimensions fastest first; those of degree 1 and neighbours that continue one another are
  // merged. Requires that a stride is a multiple of the extent (stride times degree) of the
  // dimension before it, and `ranks` of the last extent.
  GroupLayout(int ranks, const std::vector<Dimension>& dimensions);

  // The same groups cut down to the ranks at these positions (Index), ascending: the first and the
  // last stage of each pipeline. The other ranks are in none.
  GroupLayout Only(std::vector<int> positions) const;

  // Of the grid; 0 for the empty layout.
  int ranks() const { return ranks_; }
  bool empty() const { return ranks_ == 0; }
  // Of a group.
  int size() const { return positions_.empty() ? size_ : static_cast<int>(positions_.size()); }
  // How many groups there are.
  int groups() const { return empty() ? 0 : ranks_ / size_; }

  // Of the whole groups.
  const std::vector<Dimension>& dimensions() const { return dimensions_; }

  // The rank is in a group; all ranks are, but for Only.
  bool Holds(int rank) const;
  // The lowest rank of a rank's group: which group it is in. The rank is in one.
  int First(int rank) const;
  // Its position in its group.
  int Index(int rank) const;
  // All ranks of its group, ascending.
  std::vector<int> Ranks(int rank) const;
  // All groups, by lowest rank.
  std::vector<std::vector<int>> Groups() const;

  friend bool operator==(const GroupLayout&, const GroupLayout&) = default;

 private:
  int ranks_ = 0;
  int size_ = 1;
  // All ranks that differ along the dimensions, whatever `positions_`.
  int FirstOfWhole(int rank) const;
  int IndexInWhole(int rank) const;
  std::vector<int> Whole(int rank) const;

  std::vector<Dimension> dimensions_;
  std::vector<int> positions_;  // of those the ones that are in the group; empty: all
};

}  // namespace stepcast::parallel
