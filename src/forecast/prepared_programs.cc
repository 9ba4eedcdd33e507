#include "src/forecast/prepared_programs.h"

#include <algorithm>
#include <utility>

#include "src/lowering/lowering.h"

namespace stepcast::forecast {

PreparedProgram& PreparedPrograms::Of(const scenario::Scenario& scenario) {
  prepared_.works = WorksOf(scenario);
  program::Program spent = std::move(prepared_.program);
  prepared_.program =
      lowering::Lower(scenario, {.works = prepared_.works.get(), .bare = true, .spent = &spent});
  prepared_.counts = StepCounts(prepared_.program);
  prepared_.prices.device = 0;
  prepared_.timed = ReleasesAreTimed(prepared_.program);
  prepared_.delayed.reset();
  prepared_.kernels_delay = false;
  if (prepared_.timed) {
    prepared_.delayed.emplace(prepared_.program);
    prepared_.kernels_delay = prepared_.delayed->wait_for_kernels();
  }
  prepared_.memory.reset();
  return prepared_;
}

// A micro-batch's work does not depend on how many there are.
PreparedPrograms::Works PreparedPrograms::WorksOf(const scenario::Scenario& scenario) {
  plan::Training training = scenario.plan.training;
  training.gradient_accumulation = 1;
  training.global_batch_size = 0;
  const auto same = std::find_if(works_.begin(), works_.end(), [&](const KnownWorks& known) {
    return known.model == scenario.model && known.training == training;
  });
  if (same != works_.end()) return same->works;
  if (works_.size() == kMostWorks) works_.erase(works_.begin());
  Works works = std::make_shared<const std::vector<model::LayerWork>>(
      model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan.training)));
  works_.push_back({.model = scenario.model, .training = std::move(training), .works = works});
  return works;
}

}  // namespace stepcast::forecast
