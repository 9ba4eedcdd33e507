#include "src/forecast/run_time.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "src/forecast/uncertainty.h"
#include "src/plan/optimizer_states.h"
#include "src/plan/plan.h"

namespace stepcast::forecast {
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
  time.expected_failures = time.failures.rate * run.work / time.shares.work;
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

}  // namespace stepcast::forecast
