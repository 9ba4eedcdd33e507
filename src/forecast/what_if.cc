#include "src/forecast/what_if.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/expected.h"

namespace stepcast::forecast {
namespace {

using cost::Demand;
using cost::kResources;
using cost::Resource;

constexpr double kMostSpeed = 1024;

Time Sped(Time time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.picoseconds()) / factor));
}

// Which resources can limit an operation. All can limit kernels and copies. Only links limit
// collectives, whose use of compute and memory slows only other operations.
enum class Operation : std::uint8_t { kOnDevice, kCollective };

bool Limits(Operation operation, Resource kind) {
  return operation == Operation::kOnDevice || kind == Resource::kScaleUp ||
         kind == Resource::kNetwork;
}

void Speed(Demand& demand, Resource resource, double factor, Operation operation) {
  if (demand.provenance == cost::Provenance::kGiven) return;  // its limiting resource is unknown
  const auto kind = [](int r) { return cost::KindOf(static_cast<Resource>(r)); };
  double most = 0, most_after = 0;
  for (int r = 0; r < kResources; ++r) {
    if (!Limits(operation, kind(r))) continue;
    const double share = demand.share[r];
    most = std::max(most, share);
    most_after = std::max(most_after, kind(r) == resource ? share / factor : share);
  }
  if (most == 0 || most_after == most) return;
  // A share above 1 shrinks first; below 1 the work ends sooner. With less of the resource the work
  // takes longer once its share is above 1.
  const double faster = factor < 1 ? std::max(1.0, most) / std::max(1.0, most_after)
                                   : std::max(1.0, std::min(1.0, most) / most_after);
  demand.work = Sped(demand.work, faster);
  for (int r = 0; r < kResources; ++r) {
    // A collective's channels hold the same number of multiprocessors at any link speed.
    if (operation == Operation::kCollective && kind(r) == Resource::kCompute) continue;
    const double share = demand.share[r] * (kind(r) == resource ? faster / factor : faster);
    // What was below 1 is not to be above it by rounding.
    const double largest = factor < 1 ? std::max(1.0, demand.share[r]) : share;
    demand.share[r] = Limits(operation, kind(r)) ? std::min(share, largest) : std::min(1.0, share);
  }
}

// Copies of the classes with changed prices.
template <typename Change>
std::vector<PricedClass> Changed(std::vector<PricedClass> classes, const Change& change) {
  for (PricedClass& own : classes) own.prices = change(std::move(own.prices));
  return classes;
}

Time StepTime(const Run& run) { return run.forecast.step_time; }

bool Hidden(const Run& run, double part) {
  return run.forecast.time.exposed_communication.seconds() <= part * StepTime(run).seconds();
}

}  // namespace

const char* Name(MachineResource resource) {
  constexpr const char* kNames[] = {"compute", "device memory",    "links in the node",
                                    "network", "link to the host", "collectives' latency",
                                    "host"};
  return kNames[static_cast<std::size_t>(resource)];
}

cost::Prices Faster(cost::Prices prices, MachineResource resource, double factor) {
  const auto kernels = [&](Resource limited) {
    for (Demand& demand : prices.kernels) Speed(demand, limited, factor, Operation::kOnDevice);
  };
  const auto collectives = [&](Resource limited) {
    for (cost::CollectivePrice& price : prices.collectives) {
      Speed(price.demand, limited, factor, Operation::kCollective);
      price.bandwidth_bound = Sped(price.bandwidth_bound, factor);
    }
    for (std::vector<cost::MessagePrice>& messages : prices.exchanges) {
      for (cost::MessagePrice& price : messages) {
        Speed(price.demand, limited, factor, Operation::kCollective);
        price.bandwidth_bound = Sped(price.bandwidth_bound, factor);
      }
    }
  };
  switch (resource) {
    case MachineResource::kCompute:
      kernels(Resource::kCompute);
      break;
    case MachineResource::kDeviceMemory:
      kernels(Resource::kMemory);
      for (Demand& demand : prices.copies)
        Speed(demand, Resource::kMemory, factor, Operation::kOnDevice);
      break;
    case MachineResource::kScaleUp:
      collectives(Resource::kScaleUp);
      break;
    case MachineResource::kNetwork:
      collectives(Resource::kNetwork);
      break;
    case MachineResource::kHostLink:
      for (Demand& demand : prices.copies)
        Speed(demand, Resource::kHostLink, factor, Operation::kOnDevice);
      break;
    case MachineResource::kCollectiveLatency:
      for (cost::CollectivePrice& price : prices.collectives) {
        price.demand.latency = Sped(price.demand.latency, factor);
      }
      for (std::vector<cost::MessagePrice>& messages : prices.exchanges) {
        for (cost::MessagePrice& price : messages) {
          price.demand.latency = Sped(price.demand.latency, factor);
        }
      }
      break;
    case MachineResource::kLaunch:
      for (Time* issue : {&prices.issue_kernel, &prices.issue_copy, &prices.issue_collective,
                          &prices.dispatch.module, &prices.dispatch.autograd}) {
        *issue = Sped(*issue, factor);
      }
      break;
  }
  return prices;
}

namespace {

constexpr double kMost = 16;  // times as slow, or as fast
constexpr double kPrecision = 0.01;
constexpr int kMostTrials = 20;

class Speeds {
 public:
  Speeds(const scenario::Scenario& scenario, std::vector<PricedClass> classes)
      : scenario_(scenario), classes_(std::move(classes)), changed_(classes_) {}

  // The step with the resource `factor` times as fast.
  Result<Time> StepAt(MachineResource resource, double factor) {
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      changed_[i].prices = Faster(classes_[i].prices, resource, factor);
    }
    STEPCAST_TAKE(const auto forecast, forecaster_.EvaluateAt(scenario_, changed_));
    return forecast.step_time;
  }

  // By the Illinois method, between the slowness 1 and `far`, where the step takes `step_far`.
  Result<std::optional<double>> Explaining(MachineResource resource, Time step, Time measured,
                                           double far, Time step_far) {
    const auto over = [&](Time time) { return (time - measured).seconds(); };
    double near = 1, over_near = over(step), over_far = over(step_far);
    if (over_near * over_far > 0) return std::nullopt;
    const double enough = kPrecision * std::abs(over_near);
    for (int i = 0; i < kMostTrials && std::abs(over_far) > enough; ++i) {
      const double next = (near * over_far - far * over_near) / (over_far - over_near);
      STEPCAST_TAKE(const auto time, StepAt(resource, 1 / next));
      if (over(time) * over_far < 0) {
        near = far;
        over_near = over_far;
      } else {
        over_near /= 2;
      }
      far = next;
      over_far = over(time);
    }
    return 1 / far;
  }

 private:
  const scenario::Scenario& scenario_;
  std::vector<PricedClass> classes_, changed_;
  Forecaster forecaster_;
};

}  // namespace

Result<std::vector<WhatIf>> WhatIfFaster(const scenario::Scenario& scenario,
                                         const std::vector<PricedClass>& classes, const Run& run,
                                         double factor) {
  std::vector<WhatIf> result;
  Speeds speeds(scenario, classes);
  for (const MachineResource resource : kMachineResources) {
    STEPCAST_TAKE(const auto step, speeds.StepAt(resource, factor));
    if (step != StepTime(run)) result.push_back({.resource = resource, .step_time = step});
  }
  return result;
}

Result<std::optional<double>> SpeedThatHides(const scenario::Scenario& scenario,
                                             const std::vector<PricedClass>& classes,
                                             const Run& run, double part) {
  if (Hidden(run, part)) return std::optional(1.0);
  const auto hidden_at = [&](double speed) -> Result<bool> {
    const auto changed =
        SimulateAt(scenario,
                   Changed(classes,
                           [&](cost::Prices prices) {
                             for (cost::CollectivePrice& price : prices.collectives) {
                               price.demand.work = Sped(price.demand.work, speed);
                             }
                             return prices;
                           }),
                   Detail::kTimes);
    if (!changed) return tl::unexpected(changed.error());
    return Hidden(*changed, part);
  };
  STEPCAST_TAKE(const auto at_most, hidden_at(kMostSpeed));
  if (!at_most) return std::optional<double>();
  double low = 1, high = kMostSpeed;
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    STEPCAST_TAKE(const auto hidden, hidden_at(middle));
    (hidden ? high : low) = middle;
  }
  return std::optional(high);
}

Result<std::vector<ExplainingSpeed>> SpeedsThatExplain(const scenario::Scenario& scenario,
                                                       Time step_time, Time measured) {
  STEPCAST_TAKE(auto classes, PricedClassesOf(scenario));
  Speeds speeds(scenario, std::move(classes));
  const double far = measured > step_time ? kMost : 1 / kMost;
  std::vector<ExplainingSpeed> explaining;
  for (const MachineResource resource : kMachineResources) {
    STEPCAST_TAKE(const auto step_far, speeds.StepAt(resource, 1 / far));
    if (step_far == step_time) continue;
    STEPCAST_TAKE(const auto speed,
                  speeds.Explaining(resource, step_time, measured, far, step_far));
    explaining.push_back({resource, speed});
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
