#include "src/forecast/training_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "src/model/model.h"
#include "src/model/stage.h"
#include "src/plan/pipeline.h"

namespace stepcast::forecast {
void FillThroughput(const scenario::Scenario& scenario, Forecast& forecast) {
  FillThroughput(
      scenario,
      FlopsOf(scenario, model::BuildWork(*scenario.model, plan::WorkOptionsOf(scenario.plan))),
      forecast);
}

MicroBatchFlops FlopsOf(const scenario::Scenario& scenario,
                        const std::vector<model::LayerWork>& works) {
  MicroBatchFlops flops;
  const auto count = [&](const std::vector<model::Operation>& operations, double& counted) {
    for (const model::Operation& operation : operations) {
      counted += static_cast<double>(operation.kernel.model_flops);
      if (operation.kernel.kind == KernelKind::kMemoryBound) continue;
      flops.executed += static_cast<double>(operation.kernel.flops);
    }
  };
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  const std::vector<int> begins =
      model::ChunkLayers(*scenario.model, scenario.plan.parallelism.stage_layers);
  for (const int index :
       model::WorkOfLayers(*scenario.model, options, begins, plan::StagesOfChunks(scenario.plan))) {
    const model::LayerWork& work = works[index];
    count(work.forward, flops.once);
    count(work.backward, flops.once);
    count(work.recompute, flops.recomputed);
  }
  return flops;
}

namespace {

// Mean peak of the devices, in FLOPs per second.
double MeanPeak(const scenario::Scenario& scenario) {
  const auto peak_of = [&](const topology::Gpu& gpu) {
    return static_cast<double>(gpu.PeakOf(scenario.plan.training.precision).flops_per_second());
  };
  double first = scenario.cluster->nodes();
  double sum = 0;
  for (const scenario::KindOfNode& kind : scenario.other_nodes) {
    first -= kind.nodes;
    sum += kind.nodes * peak_of(kind.gpu);
  }
  if (scenario.other_nodes.empty()) return peak_of(*scenario.gpu);
  return (sum + first * peak_of(*scenario.gpu)) / scenario.cluster->nodes();
}

}  // namespace

void FillThroughput(const scenario::Scenario& scenario, const MicroBatchFlops& flops,
                    Forecast& forecast) {
  const plan::Training& training = scenario.plan.training;
  const double seconds = forecast.step_time.seconds();
  const double devices = scenario.cluster->devices();
  if (seconds <= 0) return;
  const double tokens = training.has_padded_lengths()
                            ? model::MeanLength(training.lengths->histogram)
                            : static_cast<double>(training.sequence_length);
  forecast.tokens_per_second = static_cast<double>(training.global_batch_size) * tokens / seconds;
  forecast.tokens_per_second_per_gpu = forecast.tokens_per_second / devices;
  if (scenario.model->is_layer_list() || !scenario.gpu) return;
  const double peak = MeanPeak(scenario) * seconds;
  // The ranks of a replica divide a micro-batch's work.
  const double micro_batches = static_cast<double>(training.gradient_accumulation) /
                               static_cast<double>(scenario.plan.parallelism.pipeline);
  if (peak <= 0) return;
  forecast.has_flops = true;
  forecast.mfu = flops.once * micro_batches / peak;
  forecast.hfu = (flops.once + flops.recomputed) * micro_batches / peak;
  constexpr double kPicoseconds = 1e12;
  forecast.time_at_peak =
      Picoseconds(std::llround(kPicoseconds * seconds * flops.executed * micro_batches / peak));
}

using program::Phase;

std::vector<TimePart> PartsOf(const TimeBreakdown& time) {
  const auto phase = [&time](Phase which) { return time.phase[static_cast<std::size_t>(which)]; };
  return {
      {"forward", "forward", phase(Phase::kForward)},
      {"backward", "backward", phase(Phase::kBackward)},
      {"backward of weights", "backward_weight", phase(Phase::kBackwardWeight), false},
      {"optimizer", "optimizer", phase(Phase::kOptimizer)},
      {"checkpoint saving", "checkpoint_saving", phase(Phase::kCheckpoint), false},
      {"exposed communication", "exposed_communication", time.exposed_communication},
      {"imbalance", "imbalance", time.imbalance, false},
      {"pipeline bubble", "pipeline_bubble", time.pipeline_bubble, false},
      {"idle", "idle", time.idle},
      {"allocator flushes", "allocator_flushes", time.allocator_flushes, false},
      {"learned from runs", "learned", time.learned, false},
  };
}

namespace {

constexpr double kSecondsPerHour = 3600;

double TokensOf(const TrainedStep& step) {
  return std::max<double>(1, static_cast<double>(step.tokens));
}

}  // namespace

TrainedStep TrainedStepOf(const Forecast& forecast) {
  TrainedStep step{.time = forecast.step_time};
  // Exact: rate and time have 53 bits each, and the tokens are far fewer.
  step.tokens = std::llround(forecast.tokens_per_second * forecast.step_time.seconds());
  if (forecast.tokens_per_second_per_gpu > 0) {
    step.gpus = std::llround(forecast.tokens_per_second / forecast.tokens_per_second_per_gpu);
  }
  return step;
}

UsedTime UsedTimeOf(const TrainingTarget& target, const TrainedStep& step) {
  if (target.availability) return {*target.availability, *target.availability};
  return target.effective && step.gpus > 0 ? target.effective(step.gpus) : UsedTime();
}

double AvailabilityOf(const TrainingTarget& target, const TrainedStep& step) {
  return UsedTimeOf(target, step).work;
}

double TrainingSeconds(const TrainingTarget& target, const TrainedStep& step) {
  const double steps = std::ceil(target.tokens / TokensOf(step));
  return steps * step.time.seconds() / AvailabilityOf(target, step);
}

double GpuHours(const TrainingTarget& target, const TrainedStep& step) {
  return TrainingSeconds(target, step) / kSecondsPerHour * static_cast<double>(step.gpus);
}

double GpuJoules(const TrainedStep& step, double seconds, double busy) {
  const double step_seconds = step.time.seconds();
  const double watts = step_seconds > 0 ? step.joules / step_seconds : 0;
  return seconds * static_cast<double>(step.gpus) * (watts * busy + step.idle_watts * (1 - busy));
}

double EnergyOfTraining(const TrainingTarget& target, const TrainedStep& step) {
  return target.pue * GpuJoules(step, TrainingSeconds(target, step), UsedTimeOf(target, step).busy);
}

double MoneyOfTraining(const TrainingTarget& target, const TrainedStep& step) {
  return GpuHours(target, step) * target.gpu_hour_price;
}

double MoneyOfMillionTokens(const TrainingTarget& target, const TrainedStep& step) {
  constexpr double kMillion = 1e6;
  const double gpu_seconds = step.time.seconds() * static_cast<double>(step.gpus) / TokensOf(step);
  return gpu_seconds / kSecondsPerHour * target.gpu_hour_price * kMillion /
         AvailabilityOf(target, step);
}

bool MeetsDeadline(const TrainingTarget& target, const TrainedStep& step) {
  return !target.deadline || TrainingSeconds(target, step) <= *target.deadline;
}

}  // namespace stepcast::forecast
