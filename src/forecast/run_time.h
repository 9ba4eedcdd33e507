#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "src/forecast/effective_time.h"
#include "src/forecast/published_failures.h"
#include "src/forecast/spare_nodes.h"
#include "src/scenario/scenario.h"

// The fraction of training in a run of weeks, given how its nodes fail and how its state is saved.
// Used by `run-time`.
namespace stepcast::forecast {

// Uncertain inputs of the effective time, in seconds. An infinite time between failures means that
// there are no failures.
struct RunInputs {
  Published node_mtbf, job_mtbf;
  Published detection;  // added to the detection time that `restart` includes
  Published restart;
  Published storage;  // bytes per second that the whole job writes or reads
};

// The defaults for nodes with `gpus_per_node` GPUs, of which `saving_nodes` write a part of the
// state. `manual`: people restart the job.
RunInputs PublishedInputs(std::int64_t gpus_per_node, std::int64_t saving_nodes, bool manual);

// A run, as described by the scenario and the user.
struct LongRun {
  double work = 0;   // seconds of steps without failures
  double state = 0;  // bytes of a checkpoint
  std::int64_t saving_gpus = 1;
  bool async = true;               // training continues during saves
  std::optional<double> blocking;  // seconds for which a save blocks work; none: computed from
                                   // bytes and storage
  std::optional<double> interval;  // seconds of work between saves; none: the best interval
  SpareNodes pool;                 // node_rate is set from the inputs
  bool limited_spares = false;     // use `pool`; otherwise failed nodes are replaced at once
};

struct RunTime {
  TimeShares shares;                     // at the likely inputs
  std::pair<double, double> work_range;  // range of shares.work
  Failures failures;
  CheckpointCost cost;
  double interval = 0, best_interval = 0;
  std::optional<std::pair<double, double>> young_and_daly;  // none without failures
  double expected_failures = 0;                             // in the whole run
};

// The range is computed at the same interval. Inputs are independent, so their effects at the worst
// values, or at the best ones, are added in quadrature. So is the effect of chance: the number of
// failures has a Poisson distribution, of which the central 90 % is used.
RunTime RunTimeOf(const LongRun& run, const RunInputs& inputs);

// A checkpoint: one copy of parameters and optimizer states, and the number of GPUs that store a
// part of it that no other GPU stores.
struct SavedState {
  double bytes = 0;
  std::int64_t gpus = 1;
};
SavedState SavedStateOf(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
