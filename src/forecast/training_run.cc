#include "src/forecast/training_run.h"

#include <algorithm>
#include <cmath>

namespace stepcast::forecast {
namespace {

constexpr double kSecondsPerHour = 3600;

double TokensOf(const TrainedStep& step) {
  return std::max<double>(1, static_cast<double>(step.tokens));
}

}  // namespace

TrainedStep TrainedStepOf(const Forecast& forecast) {
  TrainedStep step{.time = forecast.step_time};
  // Exact: a rate and a time of 53 bits each, and far fewer tokens than that.
  step.tokens = std::llround(forecast.tokens_per_second * forecast.step_time.seconds());
  if (forecast.tokens_per_second_per_gpu > 0) {
    step.gpus = std::llround(forecast.tokens_per_second / forecast.tokens_per_second_per_gpu);
  }
  return step;
}

double TrainingSeconds(const TrainingTarget& target, const TrainedStep& step) {
  const double steps = std::ceil(target.tokens / TokensOf(step));
  return steps * step.time.seconds() / target.availability.value_or(1);
}

double GpuHours(const TrainingTarget& target, const TrainedStep& step) {
  return TrainingSeconds(target, step) / kSecondsPerHour * static_cast<double>(step.gpus);
}

double MoneyOfTraining(const TrainingTarget& target, const TrainedStep& step) {
  return GpuHours(target, step) * target.gpu_hour_price;
}

double MoneyOfMillionTokens(const TrainingTarget& target, const TrainedStep& step) {
  constexpr double kMillion = 1e6;
  const double gpu_seconds = step.time.seconds() * static_cast<double>(step.gpus) / TokensOf(step);
  return gpu_seconds / kSecondsPerHour * target.gpu_hour_price * kMillion /
         target.availability.value_or(1);
}

bool MeetsDeadline(const TrainingTarget& target, const TrainedStep& step) {
  return !target.deadline || TrainingSeconds(target, step) <= *target.deadline;
}

}  // namespace stepcast::forecast
