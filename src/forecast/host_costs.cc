#include "src/forecast/host_costs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/calibration/calibration.h"
#include "src/plan/plan.h"
#include "src/topology/cluster.h"

namespace stepcast::forecast {

Time HostTime(const program::Program& program, const StepCounts& counts, const cost::Prices& prices,
              const Dispatch& dispatch) {
  const auto times = [](std::uint32_t count) { return static_cast<std::int64_t>(count); };
  Time sum;
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    sum += times(counts.kernels[i]) * (prices.issue_kernel + dispatch[program.kernels[i].issuer]);
  }
  for (const std::uint32_t count : counts.copies) sum += times(count) * prices.issue_copy;
  for (const auto* table : {&counts.collectives, &counts.exchanges}) {
    for (const std::uint32_t count : *table) sum += times(count) * prices.issue_collective;
  }
  for (std::size_t i = 0; i < program.host_tasks.size(); ++i) {
    sum += times(counts.host_tasks[i]) * program.host_tasks[i].duration;
  }
  return sum;
}

std::string Sentence(const UnknownHost& unknown) {
  return fmt::format("{}'s costs are not known; with {}'s a step takes {}", unknown.framework,
                     unknown.like, FormatTime(unknown.step_time));
}

void WidenByUnknownHost(const scenario::Scenario& scenario, const program::Program& program,
                        const StepCounts& counts, const cost::Prices& prices, Forecast& forecast) {
  const auto& frameworks = scenario.calibration->frameworks;
  if (scenario.plan.training.dispatch_known || frameworks == nullptr || !forecast.step_time_range ||
      prices.issue_kernel == Time()) {
    return;
  }
  UnknownHost unknown;
  for (const auto& [framework, dispatch] : frameworks->dispatch) {
    const Time host = HostTime(program, counts, prices,
                               calibration::OnHost(dispatch, scenario.cluster->host_speed()));
    if (host > unknown.step_time) unknown = {.framework = {}, .like = framework, .step_time = host};
  }
  const double left = forecast.learned ? 1 - forecast.learned->known : 1;
  const Time beyond = unknown.step_time - forecast.step_time;
  const Time high = forecast.step_time +
                    Picoseconds(std::llround(left * static_cast<double>(beyond.picoseconds())));
  if (high <= forecast.step_time_range->high) return;
  forecast.step_time_range->high = high;
  unknown.framework = plan::Name(scenario.plan.data_parallel.framework);
  forecast.unknown_host = std::move(unknown);
}

}  // namespace stepcast::forecast
