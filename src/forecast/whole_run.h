#pragma once

#include <utility>

#include "src/forecast/power.h"
#include "src/forecast/run_time.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"

namespace stepcast::forecast {

// A run of many steps with its failures, its checkpoints and its energy.
struct WholeRun {
  Forecast step;          // without a part of the saving of checkpoints
  TrainingTarget target;  // its availability is the share of work
  RunInputs inputs;
  LongRun run;
  RunTime time;
  PowerByPhase power;
  double node_watts = 0;  // of a node, without its GPUs
  double pue = 1;         // power usage effectiveness of the data center
  bool pue_assumed = false;

  // In seconds: the fastest steps at the best effective time, the slowest at the worst.
  std::pair<double, double> SecondsRange() const;
  // Watts of a GPU, the mean over the run.
  double GpuWatts() const;
  // Joules of the run: of its GPUs, and of the data center's share for it.
  double GpuEnergy() const;
  double Energy() const;
};

}  // namespace stepcast::forecast
