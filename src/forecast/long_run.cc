#include "src/forecast/long_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "src/calibration/calibration.h"
#include "src/forecast/uncertainty.h"
#include "src/plan/optimizer_states.h"
#include "src/plan/plan.h"
#include "src/program/program.h"

namespace stepcast::forecast {

TimeShares SharesOf(double interval, const Failures& failures, const CheckpointCost& cost) {
  const double cycle = std::max(interval, cost.background) + cost.blocking;
  const double rate = failures.rate;
  const double after_failure = failures.recovery + interval + cost.blocking + cost.background;
  // The expected time from one usable checkpoint to the next.
  const double time =
      rate > 0 ? std::exp(rate * after_failure) * -std::expm1(-rate * cycle) / rate : cycle;
  TimeShares shares;
  shares.work = interval / time;
  shares.saving = (cycle - interval) / time;
  // A failure begins a recovery that lasts until it is over or the next failure comes.
  shares.recovery = -std::expm1(-rate * failures.recovery);
  shares.rework = std::max(0.0, 1 - shares.work - shares.saving - shares.recovery);
  return shares;
}

double BestInterval(const Failures& failures, const CheckpointCost& cost, double longest) {
  // The share of work is the largest where 1 - x = exp(-x - d), with x and d the interval and the
  // cost in mean times between failures; the difference of the two sides has one root in [0, 1].
  const double d = failures.rate * cost.blocking;
  double low = 0, high = 1;
  constexpr int kHalvings = 60;
  for (int i = 0; i < kHalvings; ++i) {
    const double x = (low + high) / 2;
    (1 - x > std::exp(-x - d) ? low : high) = x;
  }
  if (failures.rate == 0) return longest;
  // Saves that wait for each other gain work up to an interval of one mean time between failures.
  const double waiting = std::min(cost.background, 1 / failures.rate);
  return std::min(longest, std::max(high / failures.rate, waiting));
}

double YoungInterval(const Failures& failures, const CheckpointCost& cost) {
  return std::sqrt(2 * cost.blocking / failures.rate);
}

double DalyInterval(const Failures& failures, const CheckpointCost& cost) {
  const double mean = 1 / failures.rate;
  const double part = cost.blocking / (2 * mean);
  if (part >= 1) return mean;
  return YoungInterval(failures, cost) * (1 + std::sqrt(part) / 3 + part / 9) - cost.blocking;
}

namespace {

// With so many nodes in repair, over all replicas.
double ThroughputWith(const SpareNodes& pool, std::int64_t in_repair) {
  if (in_repair <= pool.spares) return 1;
  if (!pool.elastic) return 0;
  const std::int64_t left = pool.nodes + pool.spares - in_repair;
  const auto replicas = [&](std::int64_t nodes) {
    return nodes * pool.gpus_per_node / pool.gpus_per_replica;
  };
  return static_cast<double>(replicas(left)) /
         static_cast<double>(std::max<std::int64_t>(1, replicas(pool.nodes)));
}

}  // namespace

double MeanThroughput(const SpareNodes& pool) {
  const double births = pool.node_rate * static_cast<double>(pool.nodes) * pool.repair;
  double weight = 1, total = 0, done = 0;
  for (std::int64_t in_repair = 0;; ++in_repair) {
    const double throughput = ThroughputWith(pool, in_repair);
    total += weight;
    done += weight * throughput;
    const double next = weight * births * throughput / static_cast<double>(in_repair + 1);
    constexpr double kNegligible = 1e-18, kLarge = 1e200;
    if (next <= kNegligible * total) return done / total;
    weight = next;
    if (weight > kLarge) {
      total /= weight;
      done /= weight;
      weight = 1;
    }
  }
}

namespace {

Published Scaled(const Published& figure, double factor) {
  return {figure.best * factor, figure.likely * factor, figure.worst * factor};
}

CheckpointCost CostOf(const LongRun& run, double storage) {
  const double writing = run.state / storage;
  if (!run.async) return {.blocking = run.blocking.value_or(writing)};
  const double copying = run.state / static_cast<double>(run.saving_gpus) / kHostCopy;
  return {.blocking = run.blocking.value_or(kAsyncBlocking + copying), .background = writing};
}

Failures FailuresOf(const LongRun& run, const RunInputs& inputs) {
  return {.rate = static_cast<double>(run.pool.nodes) / inputs.node_mtbf.likely +
                  1 / inputs.job_mtbf.likely,
          .recovery =
              inputs.detection.likely + inputs.restart.likely + run.state / inputs.storage.likely};
}

// With `more` times as many failures as are likely.
TimeShares SharesAt(double interval, const LongRun& run, const RunInputs& inputs, double more = 1) {
  Failures failures = FailuresOf(run, inputs);
  failures.rate *= more;
  TimeShares shares = SharesOf(interval, failures, CostOf(run, inputs.storage.likely));
  if (!run.limited_spares) return shares;
  SpareNodes pool = run.pool;
  pool.node_rate = 1 / inputs.node_mtbf.likely;
  const double throughput = MeanThroughput(pool);
  for (double* part : {&shares.work, &shares.saving, &shares.recovery, &shares.rework}) {
    *part *= throughput;
  }
  shares.waiting = 1 - throughput;
  return shares;
}

// The range of the share of work.
std::pair<double, double> WorkRange(const RunTime& time, const LongRun& run,
                                    const RunInputs& inputs) {
  // By what is lost, over what is kept: it cannot fall below zero, and each input multiplies it.
  const auto loss = [](double work) { return 1 / work - 1; };
  const double likely = loss(time.shares.work);
  if (!(likely > 0)) return {time.shares.work, time.shares.work};
  double down = 0, up = 0;  // squares of logarithms
  const auto add = [&](double worse, double better) {
    down += std::pow(std::log(std::max(likely, loss(worse)) / likely), 2);
    up += std::pow(std::log(likely / std::min(likely, loss(better))), 2);
  };
  for (Published RunInputs::*const input :
       {&RunInputs::node_mtbf, &RunInputs::job_mtbf, &RunInputs::detection, &RunInputs::restart,
        &RunInputs::storage}) {
    const auto work_with = [&](double value) {
      RunInputs other = inputs;
      (other.*input).likely = value;
      return SharesAt(time.interval, run, other).work;
    };
    add(work_with((inputs.*input).worst), work_with((inputs.*input).best));
  }
  if (time.expected_failures > 0) {
    const double chance = kNineOfTen / std::sqrt(time.expected_failures);
    add(SharesAt(time.interval, run, inputs, 1 + chance).work,
        SharesAt(time.interval, run, inputs, std::max(0.0, 1 - chance)).work);
  }
  return {1 / (1 + likely * std::exp(std::sqrt(down))),
          1 / (1 + likely * std::exp(-std::sqrt(up)))};
}

}  // namespace

RunInputs PublishedInputs(std::int64_t gpus_per_node, std::int64_t saving_nodes, bool manual) {
  const double smaller = kGpusOfPublishedNode / static_cast<double>(gpus_per_node);
  RunInputs inputs{.node_mtbf = Scaled(kNodeMtbf, smaller),
                   .job_mtbf = kJobMtbf,
                   .detection = manual ? kUnattended : Published{},
                   .restart = kRestart,
                   .storage = kStorage};
  const double nodes = kNodeStorage * static_cast<double>(saving_nodes);
  for (double* rate : {&inputs.storage.best, &inputs.storage.likely, &inputs.storage.worst}) {
    *rate = std::min(*rate, nodes);
  }
  return inputs;
}

RunTime RunTimeOf(const LongRun& run, const RunInputs& inputs) {
  RunTime time;
  time.failures = FailuresOf(run, inputs);
  time.cost = CostOf(run, inputs.storage.likely);
  time.best_interval = BestInterval(time.failures, time.cost, run.work);
  time.interval = std::min(run.work, run.interval.value_or(time.best_interval));
  if (time.failures.rate > 0) {
    time.young_and_daly = {YoungInterval(time.failures, time.cost),
                           DalyInterval(time.failures, time.cost)};
  }
  time.shares = SharesAt(time.interval, run, inputs);
  time.expected_failures =
      time.failures.rate * (1 - time.shares.waiting) * run.work / time.shares.work;
  time.work_range = WorkRange(time, run, inputs);
  return time;
}

SavedState SavedStateOf(const scenario::Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const model::Model& model = *scenario.model;
  const auto parameters = static_cast<double>(model.parameter_count());
  double optimizer = 0;
  if (plan::HasEqualMoments(plan.training.optimizer)) {
    optimizer = parameters * static_cast<double>(plan::OptimizerBytesPerParameter(plan.training));
  } else {
    std::vector<int> tensors(model.tensors.size());
    std::iota(tensors.begin(), tensors.end(), 0);
    optimizer = static_cast<double>(plan::OptimizerStateBytes(plan, model, tensors).count());
  }
  const std::int64_t shards = plan.data_parallel.zero_stage > 0 ? plan::ShardRanks(plan) : 1;
  const auto size = static_cast<double>(SizeOf(plan.training.parameter_dtype));
  return {.bytes = parameters * size + optimizer,
          .gpus = shards * plan.parallelism.tensor * plan.parallelism.pipeline};
}

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

namespace {

// The mean power over a simulated step. A correction by measured runs scales all of its parts.
double MeanPower(const PowerByPhase& power, const TimeBreakdown& time) {
  using program::Phase;
  const auto seconds = [&](Phase phase) {
    return time.phase[static_cast<std::size_t>(phase)].seconds();
  };
  double step = -time.learned.seconds();
  for (const TimePart& part : PartsOf(time)) step += part.time.seconds();
  if (step <= 0) return 0;
  const double updating = seconds(Phase::kOptimizer);
  const double computing =
      seconds(Phase::kForward) + seconds(Phase::kBackward) + seconds(Phase::kBackwardWeight);
  return (power.computing * computing + power.updating * updating +
          power.waiting * (step - computing - updating)) /
         step;
}

}  // namespace

double MeanPower(const PowerByPhase& power, const Forecast& forecast) {
  if (forecast.classes.empty()) return MeanPower(power, forecast.time);
  double sum = 0, ranks = 0;
  for (const ClassForecast& one : forecast.classes) {
    sum += one.ranks * MeanPower(power, one.time);
    ranks += one.ranks;
  }
  return sum / ranks;
}

double StepEnergy(const PowerByPhase& power, const Forecast& forecast) {
  return MeanPower(power, forecast) * forecast.step_time.seconds();
}

std::pair<double, double> WholeRun::SecondsRange() const {
  const double likely = step.step_time.seconds();
  const auto& range = step.step_time_range;
  const double shortest = range ? range->low.seconds() / likely : 1;
  const double longest = range ? range->high.seconds() / likely : 1;
  return {run.work * shortest / time.work_range.second, run.work * longest / time.work_range.first};
}

double WholeRun::Seconds() const { return TrainingSeconds(target, TrainedStepOf(step)); }

double WholeRun::GpuWatts() const {
  return GpuEnergy() / (Seconds() * static_cast<double>(TrainedStepOf(step).gpus));
}

double WholeRun::GpuEnergy() const {
  TrainedStep trained = TrainedStepOf(step);
  trained.joules = StepEnergy(power, step);
  trained.idle_watts = power.waiting;
  return GpuJoules(trained, Seconds(), time.shares.busy());
}

double WholeRun::Energy() const {
  const double nodes = node_watts * static_cast<double>(run.pool.nodes);
  return pue * (GpuEnergy() + nodes * Seconds());
}

}  // namespace stepcast::forecast
