#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/memory/account.h"
#include "src/plan/rank_grid.h"
#include "src/program/program.h"

// The results of a forecast, with units, as reports print them.
namespace stepcast::forecast {

// A set of ranks that run one program with equivalent peers. Each member is set when its value
// becomes known.
struct RankClass {
  // Set when the class is lowered and priced:
  plan::RankLabel label{};  // the label of the class's ranks in the plan
  int node_kind = 0;        // the kind of node (scenario/job_devices.h)
  std::string device{};     // device type, if the cluster has several types
  int in_flight = 1;        // maximum number of micro-batches with stored activations
  // Set when the class is simulated:
  double speed = 1;  // relative speed of the class's devices (Scenario::slow_devices)
  int first_rank = 0;
  int ranks = 1;               // number of ranks in the class
  std::vector<int> members{};  // ranks of the class, ascending; empty: all ranks
  std::size_t priced = 0;      // index of the class's program and prices in the priced classes
  std::size_t simulated = 0;   // index of the class's first rank in SimulatedRanks::classes
};

using memory::BytesByCategory;

// The time breakdown of one step on the critical rank. The parts add up exactly to the step time.
// While a kernel is running, the time belongs to the kernel's phase. Otherwise, if a stream or the
// host waits for a collective, the time is imbalance or exposed communication. All other time is
// idle. A wait for an exchange is exposed communication if all peers have begun the exchange.
struct TimeBreakdown {
  std::array<Time, program::kPhases> phase;  // indexed by program::Phase
  Time exposed_communication;
  // The time in which the rank waits for a collective that another rank of the group has not
  // started.
  Time imbalance;
  // The time in which this pipeline stage is idle and waits for an exchange that a peer has not
  // begun.
  Time pipeline_bubble;
  Time idle;
  // The time in which the device waits while the allocator frees cached memory and allocates new
  // memory by driver calls (memory/account.h).
  Time allocator_flushes;
  // The correction of the simulated step time by measured runs. The correction belongs to no phase.
  // Zero if the profile has no runs.
  Time learned;
};

// The correction of a step time by measured runs in the calibration profile.
struct RunCorrection {
  double factor = 1;  // factor by which the simulated time is multiplied
  double known = 0;   // 0: no similar run; 1: a run with equal settings was measured
};

// The calls of one collective on one group in one step.
struct CollectiveSummary {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  std::string group;
  std::int64_t calls = 0;
  double wire_bytes_per_rank = 0;
  std::string algorithm;  // several algorithms are joined with '+'
  std::string protocol;   // NCCL protocols joined with '+'; empty if NCCL is not modeled
  int channels = 0;       // maximum over the calls; 0 if NCCL is not modeled
  // The provenance of the call whose cost is least certain.
  cost::Provenance provenance = cost::Provenance::kModelled;
  Time total;
};

// The range that contains 90 % of measurements (uncertainty.h).
struct TimeRange {
  Time low, high;
  bool Holds(Time time) const { return time >= low && time <= high; }
};
struct BytesRange {
  Bytes low, high;
};

enum class MemoryVerdict : std::uint8_t {
  kFits,
  // The fit probability is below kLikelyFit, or the allocator must flush cached segments for the
  // step to fit.
  kMayNotFit,
  kDoesNotFit,
};
const char* Name(MemoryVerdict verdict);  // "fits", "may_not_fit", "does_not_fit"

// The smallest fit probability for the verdict kFits.
inline constexpr double kLikelyFit = 0.75;

struct MemoryForecast {
  int rank = 0;
  BytesByCategory at_peak{};  // memory allocated at the peak; adds up to `peak`
  Bytes peak;                 // maximum of the bytes allocated at once
  Bytes reserved;             // memory that the caching allocator reserves; at least peak
  Bytes outside;              // CUDA context and NCCL buffers, outside the allocator
  Bytes capacity;
  Bytes padding;     // part of at_peak: padding of shards to equal length
  bool fits = true;  // whether device memory and host memory are sufficient
  // The offloaded states of all ranks of a node, in host memory and on drives, with the capacities.
  Bytes host, host_capacity;
  Bytes drives, drives_capacity;
  bool offloads() const { return host > Bytes() || drives > Bytes(); }
  bool fits_host() const { return host <= host_capacity && drives <= drives_capacity; }
  // The number of times that the allocator freed its cached segments (memory::Usage).
  int allocator_flushes = 0;
  // Whether the step may hang: the allocator makes the host wait for its device while pipeline
  // stages wait for each other.
  bool allocator_may_hang = false;
  // The range of `peak`. Other memory results have the same relative error as `peak`. None if the
  // profile lacks this error.
  std::optional<BytesRange> peak_range{};
  // The probability, rounded to thousandths, that the step fits on the machine, given the error of
  // memory forecasts (uncertainty.h, FitProbability). 1 or 0 for the `reference` framework.
  double fit_probability = 1;
  // The bytes that must remain free on the device for a fit probability of kLikelyFit
  // (uncertainty.h, MemoryError). Zero for the `reference` framework.
  Bytes error;

  Bytes left() const { return capacity - reserved - outside; }
  MemoryVerdict verdict() const {
    if (!fits) return MemoryVerdict::kDoesNotFit;
    return fit_probability < kLikelyFit || allocator_flushes > 0 ? MemoryVerdict::kMayNotFit
                                                                 : MemoryVerdict::kFits;
  }
};

// A class of ranks with its results.
struct ClassForecast : RankClass {
  TimeBreakdown time{};  // time of each rank in the class; adds up to the step time
  MemoryForecast memory{};
};

// The effect of unknown host costs. Set only if the framework's host costs are unknown
// (forecast/corrections.h).
struct UnknownHost {
  std::string framework;
  std::string like;  // the known framework with the highest host costs
  Time step_time;    // step time with the host costs of `like`
};

// A kind of step whose measured time is up to `factor` times the forecast, for unknown reasons
// (forecast/corrections.h).
struct KnownGap {
  const char* kind = "";  // "tensor parallelism in eager FSDP2"
  double factor = 1;
};

// The lengths of micro-batches, in tokens, for steps whose micro-batches differ in length
// (padded_lengths.h).
struct LengthsForecast {
  double sample_tokens = 0;   // mean length of a sample
  double padded_tokens = 0;   // mean number of tokens that a rank computes per sample, with padding
  double slowest_tokens = 0;  // mean padded length of the longest micro-batches
  // Whether ranks wait for each other in each micro-batch. If false, ranks wait only at the end of
  // a step.
  bool wait_in_micro_batches = false;
  struct Step {
    std::int64_t tokens = 0;
    double of_ranks = 0;  // fraction of a rank's micro-batches with this length
    double of_steps = 0;  // fraction of steps in which this is the longest length of all ranks
    Time step_time;       // step time if all micro-batches have this length
  };
  std::vector<Step> steps;  // sorted by tokens, ascending
  // Returns the fraction of computed tokens that are padding.
  double padding() const {
    constexpr double kRounding = 1e-9;
    const double part = 1 - sample_tokens / padded_tokens;
    return part < kRounding ? 0 : part;
  }
};

struct Forecast {
  Time step_time;
  std::optional<LengthsForecast> lengths{};    // none if all micro-batches have one length
  std::optional<RunCorrection> learned{};      // none if the profile has no runs
  std::optional<TimeRange> step_time_range{};  // none if the profile has no residuals
  std::optional<UnknownHost> unknown_host{};   // set if unknown host costs widened the range
  std::optional<KnownGap> known_gap{};         // set if a known gap widened the range
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  // The bytes that a rank of the slowest class sends per step.
  double wire_bytes_per_rank = 0;
  bool has_flops = false;  // false for layer lists: mfu and hfu are undefined
  // Model FLOPs per second (MFU), or model and recomputed FLOPs per second (HFU), divided by the
  // peak of all GPUs. MFU and HFU include masked attention scores, so they can exceed 1 for long
  // sequences.
  double mfu = 0, hfu = 0;
  // The time of matrix multiplications and attention at the devices' peak, without masked FLOPs.
  Time time_at_peak{};
  TimeBreakdown time;
  Time communication_total;                    // time per step with a collective in flight
  std::vector<CollectiveSummary> collectives;  // sorted by collective, then by group
  MemoryForecast memory;                       // memory of the class Run::fullest
  // The forecasts of all classes, ordered by first rank (in a pipeline, from the first stage to the
  // last). Empty if all ranks are one class.
  std::vector<ClassForecast> classes{};
};

// Returns the memory of the class with the lowest fit probability. The step has the fit probability
// of this class.
const MemoryForecast& LeastProbable(const Forecast& forecast);

}  // namespace stepcast::forecast
