#pragma once

#include <cstddef>
#include <vector>

#include "src/parallel/group_layout.h"
#include "src/plan/plan.h"
#include "src/plan/rank_label.h"

namespace stepcast::plan {

// The labels of all ranks of a plan. Labels differ along axes of the grid, so each is the label of
// equally many ranks, and these stand alike in their process groups: two ranks of one label are in
// groups with as many ranks of each label.
class RankLabels {
 public:
  explicit RankLabels(const Plan& plan);

  // Each label once, by the lowest rank that has it.
  const std::vector<RankLabel>& distinct() const { return distinct_; }
  // The rank's label, as an index into `distinct`.
  std::size_t Of(int rank) const { return static_cast<std::size_t>(across_.Index(rank)); }
  // How many ranks have a label.
  int ranks_of_each() const { return across_.groups(); }
  // The lowest of the ranks that have this label, and all of them, ascending.
  int FirstRank(std::size_t label) const { return first_ranks_[label]; }
  std::vector<int> Ranks(std::size_t label) const;

 private:
  parallel::GroupLayout across_;  // along the axes on which labels differ
  std::vector<int> first_ranks_;  // [label]
  std::vector<RankLabel> distinct_;
};

}  // namespace stepcast::plan
