#include "src/forecast/work_cache.h"

#include <algorithm>
#include <utility>

namespace stepcast::forecast {

std::shared_ptr<const WorkCache::Work> WorkCache::Of(const scenario::Scenario& scenario) {
  plan::Training training = scenario.plan.training;
  training.gradient_accumulation = 1;
  training.global_batch_size = 0;
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.model == scenario.model && entry.training == training;
  });
  if (same != entries_.end()) return same->work;
  if (entries_.size() == kMostEntries) entries_.erase(entries_.begin());
  auto layers = model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training));
  const MicroBatchFlops flops = FlopsOf(scenario, layers);
  const auto work =
      std::make_shared<const Work>(Work{.layers = std::move(layers), .flops = flops});
  entries_.push_back({.model = scenario.model, .training = std::move(training), .work = work});
  return work;
}

}  // namespace stepcast::forecast
