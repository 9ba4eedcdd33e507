#include <algorithm>
#include <cmath>
#include <string>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/calibration/learned_runs.h"
#include "src/forecast/corrections.h"
#include "src/forecast/uncertainty.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/topology/cluster.h"

namespace stepcast::forecast {
namespace {

Time Scaled(Time time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.picoseconds()) * factor));
}

constexpr double kMega = 1e6;

// A GPU's share of its node's network bandwidth, in MB/s; 0 without a network.
std::int64_t NetworkOf(const topology::Cluster& cluster) {
  const auto mega = [](const topology::LinkSpec& link, double share) {
    return std::llround(share * static_cast<double>(link.bandwidth.bytes_per_second()) / kMega);
  };
  if (const topology::FlatCluster* flat = cluster.flat_cluster()) {
    return flat->link ? mega(*flat->link, 1) : 0;
  }
  if (cluster.fabric() == nullptr) return 0;
  const auto cards =
      cluster.node_type()->devices[static_cast<std::size_t>(topology::DeviceKind::kNic)];
  return mega(cluster.fabric()->link,
              static_cast<double>(cards) /
                  static_cast<double>(cluster.node_type()->Count(topology::DeviceKind::kGpu)));
}

}  // namespace

calibration::RunSettings SettingsOf(const scenario::Scenario& scenario) {
  constexpr double kThousand = 1000;
  const Version torch = scenario.plan.software.torch;
  const plan::Training& training = scenario.plan.training;
  const plan::Parallelism& parallelism = scenario.plan.parallelism;
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  calibration::RunSettings settings;
  settings.sizes = {scenario.model->all_parameter_count(),
                    training.sequence_length,
                    scenario.cluster->devices(),
                    training.micro_batch_size,
                    training.gradient_accumulation,
                    parallelism.data / std::max<std::int64_t>(1, data_parallel.shard_group_size),
                    parallelism.tensor,
                    parallelism.context,
                    parallelism.pipeline,
                    parallelism.expert,
                    NetworkOf(*scenario.cluster),
                    scenario.gpu ? scenario.gpu->power_limit : 0,
                    std::llround(kThousand * scenario.cluster->host_speed())};
  for (std::size_t i = 0; i < calibration::kRunSizes; ++i) {
    if (MayBeUnknown(static_cast<calibration::RunSize>(i))) continue;
    settings.sizes[i] = std::max<std::int64_t>(1, settings.sizes[i]);
  }
  settings.kinds = {scenario.cluster->gpu(),
                    plan::Name(data_parallel.framework),
                    fmt::format("{}", data_parallel.zero_stage),
                    std::string(Name(training.precision)),
                    std::string(Name(training.reduce_dtype)),
                    model::Name(training.activation_checkpointing),
                    model::Name(training.attention),
                    training.compile ? "true" : "false",
                    model::Name(training.norm),
                    plan::Name(training.host_waits),
                    fmt::format("{}.{}", torch.major, torch.minor)};
  return settings;
}

double LearnedFactor(const scenario::Scenario& scenario) {
  const auto& runs = scenario.calibration->runs;
  return runs && scenario.other_nodes.empty() ? std::exp(runs->At(SettingsOf(scenario)).log_ratio)
                                              : 1;
}

void ApplyRuns(const scenario::Scenario& scenario, Forecast& forecast) {
  const auto& runs = scenario.calibration->runs;
  const Time simulated = forecast.step_time;
  // Runs on one kind of node say nothing about several kinds.
  if (!runs || simulated <= Time() || !scenario.other_nodes.empty()) return;
  const calibration::LearnedRuns::Estimate estimate = runs->At(SettingsOf(scenario));
  const Time least = forecast.time_at_peak;
  const double factor = std::max(std::exp(estimate.log_ratio), least / simulated);
  forecast.step_time = std::max(Scaled(simulated, factor), least);
  forecast.learned = RunCorrection{.factor = factor, .known = estimate.known};
  forecast.time.learned = forecast.step_time - simulated;
  const double change = forecast.step_time / simulated;
  for (double* rate : {&forecast.tokens_per_second, &forecast.tokens_per_second_per_gpu,
                       &forecast.mfu, &forecast.hfu}) {
    *rate /= change;
  }
  if (!forecast.step_time_range) return;
  // To the extent that no run is similar, the forecast keeps its range.
  const double before = (forecast.step_time_range->high - simulated) / simulated / kNineOfTen;
  const double deviation = std::sqrt((1 - estimate.known) * before * before +
                                     estimate.known * estimate.deviation * estimate.deviation);
  const Time half = Scaled(forecast.step_time, kNineOfTen * deviation);
  forecast.step_time_range =
      TimeRange{std::max(least, forecast.step_time - half), forecast.step_time + half};
}

}  // namespace stepcast::forecast
