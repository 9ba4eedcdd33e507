#include "src/forecast/explaining_speed.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast::forecast {
namespace {

constexpr double kMostOctaves = 4;
constexpr int kHalvings = 9;

class Speeds {
 public:
  Speeds(const scenario::Scenario& scenario, std::vector<PricedClass> classes)
      : scenario_(scenario), classes_(std::move(classes)) {}

  Result<Time> StepAt(MachineResource resource, double octaves) {
    changed_ = classes_;
    for (PricedClass& own : changed_) {
      own.prices = Faster(std::move(own.prices), resource, std::exp2(octaves));
    }
    const auto forecast = forecaster_.EvaluateAt(scenario_, changed_);
    if (!forecast) return tl::unexpected(forecast.error());
    return forecast->step_time;
  }

  Result<std::optional<double>> Explaining(MachineResource resource, Time measured, bool slower) {
    double inside = 0, outside = slower ? -kMostOctaves : kMostOctaves;
    const auto beyond = [&](Time step) { return slower ? step >= measured : step <= measured; };
    auto step = StepAt(resource, outside);
    if (!step) return tl::unexpected(step.error());
    if (!beyond(*step)) return std::nullopt;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (inside + outside) / 2;
      step = StepAt(resource, middle);
      if (!step) return tl::unexpected(step.error());
      (beyond(*step) ? outside : inside) = middle;
    }
    return std::exp2(outside);
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
  const bool slower = measured > step_time;
  std::vector<ExplainingSpeed> explaining;
  for (const MachineResource resource : kMachineResources) {
    const auto most = speeds.StepAt(resource, slower ? -kMostOctaves : kMostOctaves);
    if (!most) return tl::unexpected(most.error());
    if (*most == step_time) continue;
    const auto speed = speeds.Explaining(resource, measured, slower);
    if (!speed) return tl::unexpected(speed.error());
    explaining.push_back({resource, *speed});
  }
  std::stable_sort(explaining.begin(), explaining.end(), [](const auto& a, const auto& b) {
    const auto far = [](const ExplainingSpeed& one) {
      return one.speed ? std::abs(std::log2(*one.speed)) : 2 * kMostOctaves;
    };
    return far(a) < far(b);
  });
  return explaining;
}

}  // namespace stepcast::forecast
