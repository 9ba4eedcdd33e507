#include "src/forecast/marked_operations.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace stepcast::forecast {

using program::Index;

std::vector<memory::DeferredFrees> FreesOf(const std::vector<PricedClass>& priced) {
  std::vector<memory::DeferredFrees> frees;
  frees.reserve(priced.size());
  for (const PricedClass& own : priced) frees.emplace_back(own.program);
  return frees;
}

MarkedOperations::MarkedOperations(const std::vector<PricedClass>& priced,
                                   const std::vector<memory::DeferredFrees>& frees,
                                   const RepeatedOperations* repeated)
    : marked_(priced.size()), repeated_(repeated) {
  for (std::size_t i = 0; i < priced.size(); ++i) {
    programs_.push_back(&priced[i].program);
    if (frees[i].any() || repeated != nullptr) marked_[i].resize(programs_[i]->step.size());
    for (const Index operation : frees[i].operations()) marked_[i][operation] = true;
    for_memory_ = for_memory_ || frees[i].any();
    if (repeated == nullptr) continue;
    for (const Index operation : repeated->Of(i)) {
      if (operation != program::kNone) marked_[i][operation] = true;
    }
  }
}
void MarkedOperations::MarkIn(SimulatedRanks& ranks) const {
  for (const ReportedClass& reported : ranks.reported) {
    const std::vector<bool>& own = marked_[reported.priced];
    if (!own.empty()) ranks.classes[reported.index].marked = &own;
  }
  if (repeated_ == nullptr) return;
  for (simulate::RankClass& own : ranks.classes) {
    const auto program = std::find(programs_.begin(), programs_.end(), own.program);
    const auto index = static_cast<std::size_t>(program - programs_.begin());
    own.marked = &marked_[index];
    const std::span<const Index> ends = repeated_->EndsOf(index);
    own.looked_at = {.begin = ends.front() + 1, .end = ends.back() + 1};
  }
}

}  // namespace stepcast::forecast
