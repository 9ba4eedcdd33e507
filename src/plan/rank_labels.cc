#include "src/plan/rank_labels.h"

#include "src/parallel/axis.h"
#include "src/plan/rank_grid.h"

namespace stepcast::plan {

RankLabels::RankLabels(const Plan& plan)
    : across_(GridsOf(plan).Layout(parallel::Axis::kPipeline)), first_ranks_(across_.Ranks(0)) {
  for (int stage = 0; stage < across_.size(); ++stage) distinct_.push_back({.stage = stage});
}

std::vector<int> RankLabels::Ranks(std::size_t label) const {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(ranks_of_each()));
  for (int rank = 0; rank < across_.ranks(); ++rank) {
    if (Of(rank) == label) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace stepcast::plan
