#pragma once

#include <utility>
#include <vector>

// The groups into which all ranks of a grid are divided.
namespace stepcast::parallel {

// Groups of ranks, described by strides and degrees, like layouts of tensors. The ranks of a group
// have coordinates that differ only along the layout's dimensions. The groups of a layout are
// disjoint, have equal sizes, and contain all ranks of the grid. The groups of a layout are
// *siblings*: they run the same collectives at the same time.
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

  // Creates the empty layout, whose groups are unknown.
  GroupLayout() = default;
  // Creates the groups of `ranks` ranks along `dimensions`, fastest first. Dimensions of degree 1
  // are dropped, and adjacent dimensions that form one dimension are merged. A stride must be a
  // multiple of the previous dimension's extent (stride times degree), and `ranks` a multiple of
  // the last extent.
  GroupLayout(int ranks, const std::vector<Dimension>& dimensions);

  // Returns the groups restricted to the ranks at `positions` (Index), such as the first and the
  // last stage of each pipeline. `positions` must be ascending. The result has no group for ranks
  // at other positions.
  GroupLayout Only(std::vector<int> positions) const;

  // Runs divides each group into subgroups of `count` consecutive positions. AcrossRuns returns the
  // groups of ranks with the same position in each subgroup. `count` must divide the size of a
  // group, and must divide dimensions evenly.
  GroupLayout Runs(int count) const { return Split(count).first; }
  GroupLayout AcrossRuns(int count) const { return Split(count).second; }

  // Returns the number of ranks in the grid; 0 for the empty layout.
  int ranks() const { return ranks_; }
  bool empty() const { return ranks_ == 0; }
  // Returns the number of ranks in each group.
  int size() const { return positions_.empty() ? size_ : static_cast<int>(positions_.size()); }
  // Returns the number of groups.
  int groups() const { return empty() ? 0 : ranks_ / size_; }

  // Returns the dimensions of the unrestricted groups.
  const std::vector<Dimension>& dimensions() const { return dimensions_; }

  // Returns whether the rank is in a group. False is possible only in a layout that Only()
  // restricted.
  bool Holds(int rank) const;
  // Returns the lowest rank in the group of `rank`, which identifies the group. `rank` must be in a
  // group.
  int First(int rank) const;
  // Returns the position of the rank in its group.
  int Index(int rank) const;
  // Returns all ranks of the rank's group, in ascending order.
  std::vector<int> Ranks(int rank) const;
  // Returns all groups, ordered by lowest rank.
  std::vector<std::vector<int>> Groups() const;

  friend bool operator==(const GroupLayout&, const GroupLayout&) = default;

 private:
  std::pair<GroupLayout, GroupLayout> Split(int count) const;

  int ranks_ = 0;
  int size_ = 1;
  // These functions are like First, Index and Ranks, but for the unrestricted groups: they ignore
  // `positions_`.
  int FirstOfWhole(int rank) const;
  int IndexInWhole(int rank) const;
  std::vector<int> Whole(int rank) const;

  std::vector<Dimension> dimensions_;
  std::vector<int> positions_;  // the positions that remain of an unrestricted group; empty: all
};

}  // namespace stepcast::parallel
