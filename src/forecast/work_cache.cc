#include "src/forecast/work_cache.h"

#include <algorithm>
#include <utility>

namespace stepcast::forecast {

std::shared_ptr<const WorkCache::Work> WorkCache::Of(const scenario::Scenario& scenario) {
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.model == scenario.model && entry.options == options;
  });
  if (same != entries_.end()) return same->work;
  if (entries_.size() == kMostEntries) entries_.erase(entries_.begin());
  auto layers = model::BuildWork(*scenario.model, options);
  const MicroBatchFlops flops = FlopsOf(scenario, layers);
  const auto work = std::make_shared<const Work>(Work{.layers = std::move(layers), .flops = flops});
  entries_.push_back({.model = scenario.model, .options = options, .work = work});
  return work;
}

}  // namespace stepcast::forecast
