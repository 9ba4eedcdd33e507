#include "src/forecast/corrections.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"
#include "src/calibration/calibration.h"
#include "src/calibration/learned_runs.h"
#include "src/forecast/uncertainty.h"
#include "src/model/architecture.h"
#include "src/model/model.h"
#include "src/plan/framework.h"
#include "src/plan/framework_style.h"
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
  return fmt::format(
      "the host time of kernel launches was not measured for {}. With the host times of {}, a step "
      "takes {}",
      unknown.framework, unknown.like, FormatTime(unknown.step_time));
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

namespace {

// The largest measured steps divided by their forecasts, from the rows in docs/uncertainty.md.
constexpr double kEagerTensor = 1.36, kEagerMixture = 1.68, kSlowHost = 1.72;
constexpr double kDeltaMixture = 1.37, kRecurrentOrStreams = 1.17;

// Of 49 fit rows of calibration/published/megatron-bridge-moe.yaml, 47 lie within this part of
// their forecasts. Nine of ten lie within 0.105, which is less than the residual `source` gives.
constexpr double kBlackwellMixtures = 0.18;

// If devices wait for their hosts for more than this fraction of a step, the hosts do not keep up.
constexpr double kWaits = 0.2;

bool IsMixture(const scenario::Scenario& scenario) {
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  return architecture != nullptr && architecture->experts.exist();
}

bool IsMixtureOnBlackwell(const scenario::Scenario& scenario) {
  constexpr int kBlackwell = 10;
  return IsMixture(scenario) && scenario.gpu &&
         scenario.gpu->compute_capability / 10 == kBlackwell &&
         plan::TraitsOf(scenario.plan.data_parallel.framework).megatron_layers;
}

bool HasMixer(const scenario::Scenario& scenario, model::Mixer mixer) {
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  return architecture != nullptr &&
         std::any_of(architecture->kinds.begin(), architecture->kinds.end(),
                     [&](const model::Architecture& kind) { return Has(kind, mixer); });
}

bool HasStreams(const scenario::Scenario& scenario) {
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  return architecture != nullptr && architecture->streams > 0;
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
  const bool delta = HasMixer(scenario, model::Mixer::kDelta);
  if (traits.megatron_layers && IsMixture(scenario) && delta) {
    return KnownGap{.kind = "mixtures of experts with the delta rule in Megatron-LM",
                    .factor = kDeltaMixture};
  }
  const bool waits = forecast.time.idle.seconds() > kWaits * forecast.step_time.seconds();
  const bool exchanged =
      traits.megatron_layers && IsMixture(scenario) && plan.parallelism.expert > 1;
  if (exchanged && plan.mixture.dispatcher == model::Dispatcher::kAllToAll && waits) {
    return KnownGap{.kind = "experts with all-to-alls, if the host is slower than the device",
                    .factor = kSlowHost};
  }
  // A faster GPU leaves the host less time for each layer.
  if (exchanged && IsMixtureOnBlackwell(scenario) &&
      plan.mixture.dispatcher != model::Dispatcher::kHybridEp) {
    return KnownGap{.kind = "experts on Blackwell GPUs, if the host is slower than the device",
                    .factor = kSlowHost};
  }
  const bool recurrent = delta || HasMixer(scenario, model::Mixer::kStateSpace);
  if (traits.megatron_layers && (recurrent || HasStreams(scenario))) {
    return KnownGap{.kind = "recurrent layers or hyper-connections in Megatron-LM",
                    .factor = kRecurrentOrStreams};
  }
  return std::nullopt;
}

}  // namespace

void WidenByKnownGap(const scenario::Scenario& scenario, Forecast& forecast) {
  if (!forecast.step_time_range) return;
  if (IsMixtureOnBlackwell(scenario)) {
    const auto at = [&](double factor) {
      return Picoseconds(
          std::llround(factor * static_cast<double>(forecast.step_time.picoseconds())));
    };
    TimeRange& range = *forecast.step_time_range;
    range.low = std::min(range.low, at(1 - kBlackwellMixtures));
    range.high = std::max(range.high, at(1 + kBlackwellMixtures));
  }
  const std::optional<KnownGap> gap = GapOf(scenario, forecast);
  if (!gap) return;
  // Learned runs already include the gap.
  const double left = forecast.learned ? 1 - forecast.learned->known : 1;
  const double factor = 1 + left * (gap->factor - 1);
  const Time high =
      Picoseconds(std::llround(factor * static_cast<double>(forecast.step_time.picoseconds())));
  if (high <= forecast.step_time_range->high) return;
  forecast.step_time_range->high = high;
  forecast.known_gap = gap;
}

}  // namespace stepcast::forecast
