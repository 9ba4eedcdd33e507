#include "src/forecast/power.h"

#include <algorithm>

#include "src/calibration/calibration.h"
#include "src/program/program.h"

namespace stepcast::forecast {

PowerByPhase PowerOf(const scenario::Scenario& scenario) {
  if (!scenario.gpu) return {};
  const double limit = scenario.gpu->power_limit;
  calibration::PowerDraw draw;
  if (scenario.calibration && scenario.calibration->kernels) {
    draw = scenario.calibration->KernelsOf(scenario.plan.software.torch).power;
  }
  if (draw.products == 0) return {limit, limit, limit, true};
  const double wanted = draw.idle + draw.Of(scenario.plan.training.precision);
  const double computing = limit > 0 ? std::min(limit, wanted) : wanted;
  return {.computing = computing,
          .updating = draw.memory > 0 ? draw.memory : computing,
          .waiting = draw.idle};
}

double MeanPower(const PowerByPhase& power, const Forecast& forecast) {
  using program::Phase;
  const auto seconds = [&](Phase phase) {
    return forecast.time.phase[static_cast<std::size_t>(phase)].seconds();
  };
  const double step = forecast.step_time.seconds();
  if (step <= 0) return 0;
  const double updating = seconds(Phase::kOptimizer);
  const double computing =
      seconds(Phase::kForward) + seconds(Phase::kBackward) + seconds(Phase::kBackwardWeight);
  return (power.computing * computing + power.updating * updating +
          power.waiting * (step - computing - updating)) /
         step;
}

}  // namespace stepcast::forecast
