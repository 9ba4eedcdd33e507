#pragma once

#include <utility>

#include "src/forecast/power.h"
#include "src/forecast/run_time.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"

namespace stepcast::forecast {

// A run of many steps: a step, how the run fails and is saved, and what follows.
struct WholeRun {
  Forecast step;          // without a part of the saving of checkpoints
  TrainingTarget target;  // its availability is the share of work
  RunInputs inputs;
  LongRun run;
  RunTime time;
  PowerByPhase power;
  double node_watts = 0;  // that a node draws beside its GPUs
  double pue = 1;         // power usage effectiveness of the data center
  bool pue_assumed = false;

  // In seconds: the fastest steps at the best effective time, the slowest at the worst.
  std::pair<double, double> SecondsRange() const;
  // Watts of a GPU, the mean over the run.
  double GpuWatts() const;
  // Joules of the run: of its GPUs, and of all that the data center draws for it.
  double GpuEnergy() const;
  double Energy() const;
};

}  // namespace stepcast::forecast
