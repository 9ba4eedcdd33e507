#pragma once

#include <utility>

#include "src/forecast/power.h"
#include "src/forecast/run_time.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"

namespace stepcast::forecast {

// A run of many steps, with its failures, checkpoints and energy.
struct WholeRun {
  Forecast step;          // without any share of checkpoint saving
  TrainingTarget target;  // its availability is the fraction of work
  RunInputs inputs;
  LongRun run;
  RunTime time;
  PowerByPhase power;
  double node_watts = 0;  // of a node without its GPUs
  double pue = 1;         // power usage effectiveness of the data center
  bool pue_assumed = false;

  // In seconds: from the fastest steps at the best effective time to the slowest at the worst.
  std::pair<double, double> SecondsRange() const;
  // Mean power of one GPU over the run, in watts.
  double GpuWatts() const;
  // Energy of the run in joules: of its GPUs, and of its share of the data center.
  double GpuEnergy() const;
  double Energy() const;
};

}  // namespace stepcast::forecast
