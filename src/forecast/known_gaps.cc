#include "src/forecast/known_gaps.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <variant>

#include "src/model/architecture.h"
#include "src/plan/framework.h"
#include "src/plan/framework_style.h"

namespace stepcast::forecast {
namespace {

// The largest measured step over its forecast, of the rows that docs/uncertainty.md lists.
constexpr double kEagerTensor = 1.36, kEagerMixture = 1.63, kSlowHost = 1.92;

// The part of a step for which devices wait for their hosts, from which on a host does not keep up.
constexpr double kWaits = 0.2;

bool IsMixture(const scenario::Scenario& scenario) {
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  return architecture != nullptr && architecture->experts.exist();
}

std::optional<KnownGap> GapOf(const scenario::Scenario& scenario, const Forecast& forecast) {
  const plan::Plan& plan = scenario.plan;
  const plan::FrameworkTraits& traits = plan::TraitsOf(plan.data_parallel.framework);
  const bool eager = plan::StyleOf(plan.data_parallel.framework).distributed_tensors &&
                     !plan.training.compile && !scenario.model->is_layer_list();
  if (eager && IsMixture(scenario)) {
    return KnownGap{.kind = "mixtures of experts in eager FSDP2", .factor = kEagerMixture};
  }
  if (eager && plan.parallelism.tensor > 1) {
    return KnownGap{.kind = "tensor parallelism in eager FSDP2", .factor = kEagerTensor};
  }
  const bool waits = forecast.time.idle.seconds() > kWaits * forecast.step_time.seconds();
  if (traits.megatron_layers && IsMixture(scenario) && plan.parallelism.expert > 1 &&
      plan.mixture.dispatcher == model::Dispatcher::kAllToAll && waits) {
    return KnownGap{.kind = "experts behind all-to-alls whose host does not keep up",
                    .factor = kSlowHost};
  }
  return std::nullopt;
}

}  // namespace

void WidenByKnownGap(const scenario::Scenario& scenario, Forecast& forecast) {
  if (!forecast.step_time_range) return;
  const std::optional<KnownGap> gap = GapOf(scenario, forecast);
  if (!gap) return;
  // Runs that forecasts learned from have the gap in them.
  const double left = forecast.learned ? 1 - forecast.learned->known : 1;
  const double factor = 1 + left * (gap->factor - 1);
  const Time high =
      Picoseconds(std::llround(factor * static_cast<double>(forecast.step_time.picoseconds())));
  if (high <= forecast.step_time_range->high) return;
  forecast.step_time_range->high = high;
  forecast.known_gap = gap;
}

}  // namespace stepcast::forecast
