#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// The fraction of a long run that is training, given failures and checkpoints. Closed-form solution
// of a renewal process.
//
// Failures occur at a constant rate, also during recovery. After a failure, the job recovers and
// continues from the last usable checkpoint. A save begins after `interval` seconds of work, and
// stops work for `blocking` seconds. The checkpoint is usable `background` seconds later, and the
// next save waits until then. Let l be the failure rate, R the recovery, t the interval, d the
// blocking and B the background time. Without failures, a new checkpoint becomes usable every L =
// max(t, B) + d seconds. The expected time of such a cycle is
//
//   T = exp(l (R + t + d + B)) (1 - exp(-l L)) / l
//
// For B = 0, this is Daly's formula (Daly 2006, Future Generation Computer Systems 22). A cycle
// fails with probability 1 - exp(-l L), and then needs a period of length R + t + d + B without a
// failure. The expected time until a period of length x passes without a failure is (exp(l x) - 1)
// / l. Until it ends or fails, the cycle takes (1 - exp(-l L)) / l on average.
namespace stepcast::forecast {

// The failures of a job. All times are in seconds.
struct Failures {
  double rate = 0;      // failures of the complete job per second; 0: no failures
  double recovery = 0;  // time from a failure until work continues
};

struct CheckpointCost {
  double blocking = 0;    // time for which a save stops work
  double background = 0;  // time from the end of blocking until the checkpoint is usable
};

// The parts of a run's time, as fractions with the sum 1.
struct TimeShares {
  double work = 1;      // work that is not lost in failures
  double saving = 0;    // a checkpoint save blocks work
  double recovery = 0;  // recovery after failures
  double rework = 0;    // work that is repeated after failures
  double waiting = 0;   // no spare nodes, so the job waits for repairs

  double busy() const { return work + rework; }  // the GPUs compute
};

// Returns the parts of a run's time. `interval` is the work between saves in seconds, above 0. A
// save begins only when the previous checkpoint is usable; until then, work waits.
TimeShares SharesOf(double interval, const Failures& failures, const CheckpointCost& cost);

// Returns the interval, in seconds and at most `longest`, with the largest fraction of work.
double BestInterval(const Failures& failures, const CheckpointCost& cost, double longest);

// Return approximations of the best interval, in seconds. Young 1974 (Communications of the ACM
// 17): sqrt(2 d M) for a cost d and a mean time between failures M. Daly 2006: equation 37. Both
// approximations ignore CheckpointCost::background and require a positive failure rate.
double YoungInterval(const Failures& failures, const CheckpointCost& cost);
double DalyInterval(const Failures& failures, const CheckpointCost& cost);

// A job's nodes and its spare nodes.
struct SpareNodes {
  std::int64_t nodes = 1;   // planned number of nodes of the job
  std::int64_t spares = 0;  // healthy spare nodes at the start
  std::int64_t gpus_per_node = 1;
  std::int64_t gpus_per_replica = 1;  // GPUs of one replica of the model
  bool elastic = false;               // without spare nodes, continues with fewer replicas
  double node_rate = 0;               // failures of one node per second
  double repair = 0;                  // mean time to repair a failed node, in seconds
};

// Returns the job's mean throughput as a fraction of its throughput with all replicas.
//
// If more nodes are in repair than there are spares, the job stops or, if elastic, runs with fewer
// replicas. Nodes are repaired independently, so the number of nodes in repair is a birth-death
// process. The stationary distribution of this process depends only on the mean repair time. (For a
// job that stops, it is Erlang's loss system.) Throughput is in samples. A restart with another
// number of replicas takes no time in this model.
double MeanThroughput(const SpareNodes& pool);

// Published data about failures of large jobs and about checkpoints: the defaults of `run-time`.
// Each input has a most favorable, a likely and a least favorable value.
//
//   Llama 3    Llama Team 2024, arXiv 2407.21783: 16,384 H100, 54 days, 466 interruptions, 419 of
//              them unexpected, 78 % of these by hardware; more than 90 % of the time effective
//   RSC        Kokolis et al. 2024, arXiv 2410.21680 (HPCA 2025): two clusters of A100, 11 months
//   BLOOM      bigscience-workshop/bigscience@e726b15982fa train/tr11-176B-ml/chronicles.md: 48
//              nodes of 8 A100
//   OPT        OPT-175B on 124 nodes of 8 A100: glennklockwood.com/garden/job-reliability
//   ByteCheckpoint  arXiv 2407.20143 v4 (NSDI 2025), Table 8: a model of 405B on 8,960 GPUs

struct Published {
  double best = 0, likely = 0, worst = 0;
  bool given = false;  // set by the user; all three values are equal
};

inline constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

// The mean time between failures of eight GPUs and their host, in seconds. RSC-2 had 2.34 failures
// in 1,000 node-days, and RSC-1 had 6.5. Llama 3 had 327 hardware failures in 54 days of 2,048
// nodes.
inline constexpr Published kNodeMtbf = {kDay / 2.34e-3, 54 * kDay * 2048 / 327, kDay / 6.5e-3};
inline constexpr double kGpusOfPublishedNode = 8;

// The mean time between a job's other interruptions, in seconds, for any size of job. BLOOM had
// three hangs nine days apart, and Llama 3 had 139 other interruptions in 54 days. OPT had an
// interruption every 7.5 h, from which node failures are subtracted. For comparison, jobs of 1,024
// GPUs on RSC-1 failed every 7.9 h, or every 10.9 h without node failures.
inline constexpr Published kJobMtbf = {9 * kDay, 54 * kDay / 139,
                                       1 / (1 / (7.5 * kHour) - 124 / kNodeMtbf.likely)};

// The seconds from a failure until the job loads its checkpoint, if a program restarts the job. RSC
// states 5 to 20 minutes for detection, scheduling and start. The likely value is the geometric
// mean of this range.
inline constexpr Published kRestart = {5 * kMinute, 10 * kMinute, 20 * kMinute};

// The additional seconds until a person notices a failure, if people restart the job. NCCL's
// timeout in PyTorch is 10 minutes; four failures of BLOOM lost 10.6 h on average. The likely value
// is the geometric mean of 10 minutes and 10.6 h.
inline constexpr Published kUnattended = {10 * kMinute, 80 * kMinute, 10.6 * kHour};

// The storage bandwidth of a complete job, in bytes per second. ByteCheckpoint saved 5.67 TB (14
// bytes per parameter) in 51.06 s and loaded the same amount in 129.49 s. BLOOM saved 2.3 TB in 40
// s.
inline constexpr Published kStorage = {5.67e12 / 51.06, 2.3e12 / 40, 5.67e12 / 129.49};
// The largest storage bandwidth of one node, in bytes per second: BLOOM's rate divided by its 48
// nodes.
inline constexpr double kNodeStorage = 2.3e12 / 40 / 48;

// kAsyncBlocking: the seconds for which an asynchronous save blocks the step, in addition to the
// copy to host memory (ByteCheckpoint: 0.59 s for 0.6 GB per GPU). kHostCopy: the rate of the copy
// per GPU, in bytes per second (PCIe 4.0, pinned memory; general knowledge).
inline constexpr double kAsyncBlocking = 0.59;
inline constexpr double kHostCopy = 25e9;

// The power usage effectiveness of a data center: 1.2 at Jean Zay, where BLOOM was trained
// (Luccioni et al. 2022, arXiv 2211.02001).
inline constexpr double kPue = 1.2;

// Computes the fraction of a run of several weeks that is training, given node failures and the
// cost of checkpoints. Used by `run-time`.

// The uncertain inputs of RunTimeOf, in seconds unless noted. An infinite time between failures
// means no failures.
struct RunInputs {
  Published node_mtbf, job_mtbf;
  Published detection;  // time to detect failures, in addition to `restart`
  Published restart;
  Published storage;  // bytes per second of the complete job, read or written
};

// Returns the default inputs for nodes with `gpus_per_node` GPUs. `saving_nodes` is the number of
// nodes that write a part of the state. With `manual`, people restart the job.
RunInputs PublishedInputs(std::int64_t gpus_per_node, std::int64_t saving_nodes, bool manual);

// A run, as specified by the scenario and the user.
struct LongRun {
  double work = 0;   // seconds of steps without failures
  double state = 0;  // size of a checkpoint in bytes
  std::int64_t saving_gpus = 1;
  bool async = true;               // training continues during saves
  std::optional<double> blocking;  // seconds; none: computed from state size and bandwidth
  std::optional<double> interval;  // seconds of work between saves; none: the best interval
  SpareNodes pool;                 // node_rate is computed from the inputs
  bool limited_spares = false;     // false: failed nodes are replaced immediately
};

struct RunTime {
  TimeShares shares;                     // for the likely inputs
  std::pair<double, double> work_range;  // range of shares.work
  Failures failures;
  CheckpointCost cost;
  double interval = 0, best_interval = 0;
  std::optional<std::pair<double, double>> young_and_daly;  // none without failures
  double expected_failures =
      0;  // in the complete run, excluding the time in which the job waits for repairs
};

// Computes a run's time for the likely inputs, and its range for the same checkpoint interval.
// Inputs are independent, so the effects of their extreme values are added in quadrature. The
// effect of chance is also added in quadrature: the central 90 % of the Poisson distribution of the
// number of failures.
RunTime RunTimeOf(const LongRun& run, const RunInputs& inputs);

// The state in a checkpoint: one copy of parameters and optimizer states. `gpus` is the number of
// GPUs that store different parts of the state.
struct SavedState {
  double bytes = 0;
  std::int64_t gpus = 1;
};
SavedState SavedStateOf(const scenario::Scenario& scenario);

// The power of one GPU in each phase of a step, in watts, on a node of the scenario's first kind.
struct PowerByPhase {
  double computing = 0;  // forward and backward; matrix multiplications reach the board's limit
  double updating = 0;   // the optimizer, which is memory-bound
  double waiting = 0;    // communication, bubbles and idle time: the idle power
  bool at_most = false;  // the profile has no power draw, so all values are the board's limit
};
// Returns the power of one GPU in each phase. Zero if neither the profile nor the data sheet states
// a power.
PowerByPhase PowerOf(const scenario::Scenario& scenario);

// Returns the mean power of one GPU over the step and all ranks, in watts. Zero if the forecast has
// no time breakdown (Detail::kTimes).
double MeanPower(const PowerByPhase& power, const Forecast& forecast);
// Returns the energy of one GPU in a step, in joules.
double StepEnergy(const PowerByPhase& power, const Forecast& forecast);

// A run of many steps, with its failures, checkpoints and energy.
struct WholeRun {
  Forecast step;          // without the time for checkpoint saves
  TrainingTarget target;  // target.availability is the fraction of work
  RunInputs inputs;
  LongRun run;
  RunTime time;
  PowerByPhase power;
  double node_watts = 0;  // power of a node without its GPUs
  double pue = 1;         // power usage effectiveness of the data center
  bool pue_assumed = false;

  // Returns the shortest and longest duration of the run, in seconds. The shortest has the fastest
  // steps and the largest fraction of work; the longest has the slowest steps and the smallest
  // fraction.
  std::pair<double, double> SecondsRange() const;
  // Returns the duration of the run for the likely inputs, in seconds.
  double Seconds() const;
  // Returns the mean power of one GPU over the run, in watts.
  double GpuWatts() const;
  // Return the energy of the run in joules. GpuEnergy includes only the run's GPUs. Energy also
  // includes the other parts of the nodes, and is multiplied by `pue`.
  double GpuEnergy() const;
  double Energy() const;
};

}  // namespace stepcast::forecast
