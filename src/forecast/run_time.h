#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "src/forecast/effective_time.h"
#include "src/forecast/published_failures.h"
#include "src/forecast/spare_nodes.h"
#include "src/scenario/scenario.h"

// How much of the time of a run of weeks is training, given how its nodes fail and how its state is
// saved: `run-time`.
namespace stepcast::forecast {

// Uncertain inputs of the effective time, in seconds. An infinite time between failures means that
// none happens.
struct RunInputs {
  Published node_mtbf, job_mtbf;
  Published detection;  // in addition to the part that `restart` includes
  Published restart;
  Published storage;  // bytes per second that the whole job writes or reads
};

// The defaults for nodes with `gpus_per_node` GPUs. `saving_nodes` nodes write a part of the state.
// `manual`: people restart the job.
RunInputs PublishedInputs(std::int64_t gpus_per_node, std::int64_t saving_nodes, bool manual);

// The run as the scenario and the user describe it.
struct LongRun {
  double work = 0;   // seconds of steps without failures
  double state = 0;  // bytes of a checkpoint
  std::int64_t saving_gpus = 1;
  bool async = true;               // saves go on while the job trains
  std::optional<double> blocking;  // seconds that a save blocks; none: by bytes and storage
  std::optional<double> interval;  // seconds of work from save to save; none: the best
  SpareNodes pool;                 // node_rate is set from the inputs
  bool limited_spares = false;     // `pool` counts; else a failed node is replaced at once
};

struct RunTime {
  TimeShares shares;                     // likely
  std::pair<double, double> work_range;  // of shares.work
  Failures failures;
  CheckpointCost cost;
  double interval = 0, best_interval = 0;
  std::optional<std::pair<double, double>> young_and_daly;  // none without failures
  double expected_failures = 0;                             // in the whole run
};

// The range is at the same interval. Inputs are independent, so the effects of each at its worst,
// or its best, are added in quadrature. So is chance: the number of failures has a Poisson
// distribution, of which nine of ten outcomes count.
RunTime RunTimeOf(const LongRun& run, const RunInputs& inputs);

// A checkpoint: one copy of parameters and optimizer states, and how many GPUs hold a part of it
// that no other GPU holds.
struct SavedState {
  double bytes = 0;
  std::int64_t gpus = 1;
};
SavedState SavedStateOf(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
