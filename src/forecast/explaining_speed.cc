#include "src/forecast/explaining_speed.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast::forecast {
namespace {

constexpr double kMost = 16;  // times as slow, or as fast
constexpr double kPrecision = 0.01;
constexpr int kMostSteps = 20;

class Speeds {
 public:
  Speeds(const scenario::Scenario& scenario, std::vector<PricedClass> classes)
      : scenario_(scenario), classes_(std::move(classes)) {}

  // The step where the resource takes `slowness` times as long.
  Result<Time> StepAt(MachineResource resource, double slowness) {
    changed_ = classes_;
    for (PricedClass& own : changed_) {
      own.prices = Faster(std::move(own.prices), resource, 1 / slowness);
    }
    const auto forecast = forecaster_.EvaluateAt(scenario_, changed_);
    if (!forecast) return tl::unexpected(forecast.error());
    return forecast->step_time;
  }

  // By the Illinois method, between the slowness 1 and `far`, where the step takes `step_far`.
  Result<std::optional<double>> Explaining(MachineResource resource, Time step, Time measured,
                                           double far, Time step_far) {
    const auto over = [&](Time time) { return (time - measured).seconds(); };
    double near = 1, over_near = over(step), over_far = over(step_far);
    if (over_near * over_far > 0) return std::nullopt;
    const double enough = kPrecision * std::abs(over_near);
    for (int i = 0; i < kMostSteps && std::abs(over_far) > enough; ++i) {
      const double next = (near * over_far - far * over_near) / (over_far - over_near);
      const auto time = StepAt(resource, next);
      if (!time) return tl::unexpected(time.error());
      if (over(*time) * over_far < 0) {
        near = far;
        over_near = over_far;
      } else {
        over_near /= 2;
      }
      far = next;
      over_far = over(*time);
    }
    return 1 / far;
  }

 private:
  const scenario::Scenario& scenario_;
  std::vector<PricedClass> classes_, changed_;
  Forecaster forecaster_;
};

}  // namespace

Result<std::vector<ExplainingSpeed>> SpeedsThatExplain(const scenario::Scenario& scenario,
                                                       Time step_time, Time measured) {
  auto classes = PricedClassesOf(scenario);
  if (!classes) return tl::unexpected(std::move(classes.error()));
  Speeds speeds(scenario, *std::move(classes));
  const double far = measured > step_time ? kMost : 1 / kMost;
  std::vector<ExplainingSpeed> explaining;
  for (const MachineResource resource : kMachineResources) {
    const auto step_far = speeds.StepAt(resource, far);
    if (!step_far) return tl::unexpected(step_far.error());
    if (*step_far == step_time) continue;
    const auto speed = speeds.Explaining(resource, step_time, measured, far, *step_far);
    if (!speed) return tl::unexpected(speed.error());
    explaining.push_back({resource, *speed});
  }
  std::stable_sort(explaining.begin(), explaining.end(), [](const auto& a, const auto& b) {
    const auto far = [](const ExplainingSpeed& one) {
      return one.speed ? std::abs(std::log(*one.speed)) : kMost;
    };
    return far(a) < far(b);
  });
  return explaining;
}

}  // namespace stepcast::forecast
