#include "src/forecast/learned.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/calibration/learned_runs.h"
#include "src/forecast/uncertainty.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/topology/cluster.h"

namespace stepcast::forecast {
namespace {

Time Scaled(Time time, double factor) {
  return Picoseconds(std::llround(static_cast<double>(time.picoseconds()) * factor));
}

}  // namespace

calibration::RunSettings SettingsOf(const scenario::Scenario& scenario) {
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
                    parallelism.expert};
  for (std::int64_t& size : settings.sizes) size = std::max<std::int64_t>(1, size);
  settings.kinds = {scenario.cluster->gpu(),
                    plan::Name(data_parallel.framework),
                    fmt::format("{}", data_parallel.zero_stage),
                    std::string(Name(training.precision)),
                    std::string(Name(training.reduce_dtype)),
                    model::Name(training.activation_checkpointing),
                    model::Name(training.attention),
                    training.compile ? "true" : "false"};
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
  // Runs on one kind of node say nothing of several.
  if (!runs || simulated <= Time() || !scenario.other_nodes.empty()) return;
  const calibration::LearnedRuns::Estimate estimate = runs->At(SettingsOf(scenario));
  double factor = std::exp(estimate.log_ratio);
  if (forecast.has_flops) factor = std::max(factor, forecast.hfu);
  forecast.step_time = Scaled(simulated, factor);
  forecast.learned = RunCorrection{.factor = factor, .known = estimate.known};
  forecast.time.learned = forecast.step_time - simulated;
  const double change = forecast.step_time / simulated;
  for (double* rate : {&forecast.tokens_per_second, &forecast.tokens_per_second_per_gpu,
                       &forecast.mfu, &forecast.hfu}) {
    *rate /= change;
  }
  if (!forecast.step_time_range) return;
  // As far as the runs say nothing, the forecast is as well known as without them.
  const double before = (forecast.step_time_range->high - simulated) / simulated / kNineOfTen;
  const double deviation = std::sqrt((1 - estimate.known) * before * before +
                                     estimate.known * estimate.deviation * estimate.deviation);
  const Time half = Scaled(forecast.step_time, kNineOfTen * deviation);
  forecast.step_time_range =
      TimeRange{std::max(Time(), forecast.step_time - half), forecast.step_time + half};
}

}  // namespace stepcast::forecast
