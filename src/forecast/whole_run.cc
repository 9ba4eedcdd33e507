#include "src/forecast/whole_run.h"

namespace stepcast::forecast {

std::pair<double, double> WholeRun::SecondsRange() const {
  const double likely = step.step_time.seconds();
  const auto& range = step.step_time_range;
  const double shortest = range ? range->low.seconds() / likely : 1;
  const double longest = range ? range->high.seconds() / likely : 1;
  return {run.work * shortest / time.work_range.second, run.work * longest / time.work_range.first};
}

double WholeRun::GpuWatts() const {
  // Work that a failure made void draws as much as work that is kept.
  const double training = time.shares.work + time.shares.rework;
  return MeanPower(power, step) * training + power.waiting * (1 - training);
}

double WholeRun::GpuEnergy() const {
  return GpuWatts() * TrainingSeconds(target, TrainedStepOf(step)) *
         static_cast<double>(TrainedStepOf(step).gpus);
}

double WholeRun::Energy() const {
  const double nodes = node_watts * static_cast<double>(run.pool.nodes);
  return pue * (GpuEnergy() + nodes * TrainingSeconds(target, TrainedStepOf(step)));
}

}  // namespace stepcast::forecast
