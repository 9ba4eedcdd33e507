#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/forecast/rank_class.h"
#include "src/memory/account.h"
#include "src/program/program.h"

// A forecast's figures, all units stated, as reports print them.
namespace stepcast::forecast {

using memory::BytesByCategory;

// Where one step's time goes on the critical rank; the parts add up to the step time exactly.
// Each instant belongs to the phase of the kernel computing then; else to imbalance or exposed
// communication if a stream or the host waits for a collective; else to idle. Waiting for an
// exchange is exposed communication once all its peers have begun it.
struct TimeBreakdown {
  std::array<Time, program::kPhases> phase;  // by program::Phase
  Time exposed_communication;
  // The collective waited for has not been reached by another member of its group.
  Time imbalance;
  // The exchange waited for has not been begun by a peer: this stage of the pipeline is idle.
  Time pipeline_bubble;
  Time idle;
  // The device stands still while the host gives cached memory back and takes new: the driver's
  // calls of allocator flushes (memory/account.h).
  Time allocator_flushes;
  // Correction of the simulated step by measured runs: of no phase. Zero without runs.
  Time learned;
};

// How measured runs of the calibration profile have corrected a step time.
struct RunCorrection {
  double factor = 1;  // of the simulated time
  double known = 0;   // 0: no run is like this one; 1: as well known as a repeated measurement
};

// Calls of one collective on one group in one step.
struct CollectiveSummary {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  std::string group;
  std::int64_t calls = 0;
  double wire_bytes_per_rank = 0;
  std::string algorithm;  // several are joined with '+'
  std::string protocol;   // NCCL's, likewise; empty where NCCL is not modelled
  int channels = 0;       // the most that a call uses; 0 where NCCL is not modelled
  cost::Provenance provenance = cost::Provenance::kModelled;  // the worst of the calls
  Time total;
};

// Within which nine of ten measurements are expected (uncertainty.h).
struct TimeRange {
  Time low, high;
  bool Holds(Time time) const { return time >= low && time <= high; }
};
struct BytesRange {
  Bytes low, high;
};

enum class MemoryVerdict : std::uint8_t {
  kFits,
  // The step fits by the forecast, but with a probability below kLikelyFit, or only after the
  // allocator has given cached segments back.
  kMayNotFit,
  kDoesNotFit,
};
const char* Name(MemoryVerdict verdict);  // "fits", "may_not_fit", "does_not_fit"

// A step is said to fit where the probability that it does is at least this.
inline constexpr double kLikelyFit = 0.75;

struct MemoryForecast {
  int rank = 0;
  BytesByCategory at_peak{};  // what is alive at the peak; adds up to peak
  Bytes peak;                 // most bytes the allocator had handed out at once
  Bytes reserved;             // what the caching allocator holds from the device; at least peak
  Bytes outside;              // context and NCCL, which the allocator does not see
  Bytes capacity;
  Bytes padding;     // the part of at_peak that only fills shards to equal length
  bool fits = true;  // reserved + outside <= capacity, and the hosts have room
  // Offloaded state of the ranks of one node, in its memory and on its drives.
  Bytes host, host_capacity;
  Bytes drives, drives_capacity;
  bool offloads() const { return host > Bytes() || drives > Bytes(); }
  bool fits_host() const { return host <= host_capacity && drives <= drives_capacity; }
  // Times that the allocator gave its cached segments back to make room; see memory::Usage.
  int allocator_flushes = 0;
  // The step may hang there: the allocator makes the host wait for its device, and the stages of a
  // pipeline then wait for each other.
  bool allocator_may_hang = false;
  // Of `peak`; others are known as well in relative terms. None where the profile does not say.
  std::optional<BytesRange> peak_range{};
  // The probability that the step fits on the machine, rounded to thousandths. It follows from the
  // error of forecasts of peaks (uncertainty.h, FitProbability). In textbook data parallelism it is
  // one or zero.
  double fit_probability = 1;
  // The bytes that have to be left of the device for a probability of kLikelyFit (uncertainty.h,
  // MemoryError). In textbook data parallelism they are zero.
  Bytes error;

  Bytes left() const { return capacity - reserved - outside; }
  MemoryVerdict verdict() const {
    if (!fits) return MemoryVerdict::kDoesNotFit;
    return fit_probability < kLikelyFit || allocator_flushes > 0 ? MemoryVerdict::kMayNotFit
                                                                 : MemoryVerdict::kFits;
  }
};

// A class of ranks and its part of the answer.
struct ClassForecast : RankClass {
  TimeBreakdown time{};  // of each of its ranks; adds up to the step
  MemoryForecast memory{};
};

// Host costs of the framework are not known (forecast/corrections.h).
struct UnknownHost {
  std::string framework;
  std::string like;  // the costliest framework that is known
  Time step_time;    // the step if the host's part cost as much
};

// Measured steps of the scenario's kind take up to `factor` times their forecasts, and why is not
// known (forecast/corrections.h).
struct KnownGap {
  const char* kind = "";  // "tensor parallelism in eager FSDP2"
  double factor = 1;
};

// The lengths, in tokens, behind a forecast of steps whose micro-batches differ in length
// (padded_lengths.h).
struct LengthsForecast {
  double sample_tokens = 0;   // of a sample, on average
  double padded_tokens = 0;   // that a rank computes for it, on average
  double slowest_tokens = 0;  // to which the micro-batches that ranks wait for are padded
  // Ranks wait for the longest micro-batch of all in each; else at the end of a step alone.
  bool wait_in_micro_batches = false;
  struct Step {
    std::int64_t tokens = 0;
    double of_ranks = 0;  // the part of a rank's micro-batches that is so long
    double of_steps = 0;  // the part of micro-batches in which the longest of all ranks' is
    Time step_time;       // of a step of such micro-batches alone
  };
  std::vector<Step> steps;  // ascending
  // The part of the tokens that a rank computes and that belong to no sample.
  double padding() const {
    constexpr double kRounding = 1e-9;
    const double part = 1 - sample_tokens / padded_tokens;
    return part < kRounding ? 0 : part;
  }
};

struct Forecast {
  Time step_time;
  std::optional<LengthsForecast> lengths{};    // none where all micro-batches have one length
  std::optional<RunCorrection> learned{};      // none where the profile has no runs
  std::optional<TimeRange> step_time_range{};  // none where the profile has no residuals
  std::optional<UnknownHost> unknown_host{};   // set where the range is wider for it
  std::optional<KnownGap> known_gap{};         // likewise
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  // Bytes that a rank of the slowest class sends to others in a step.
  double wire_bytes_per_rank = 0;
  bool has_flops = false;  // false for layer lists: mfu and hfu have no meaning
  // Over the peak of all GPUs, attention counted as if it had no mask: model FLOPs, and with those
  // that are done again. Where most of a step is masked attention they can exceed 1.
  double mfu = 0, hfu = 0;
  // As long as matrix products and attention, without what a mask saves, take the devices at their
  // peak.
  Time time_at_peak{};
  TimeBreakdown time;
  Time communication_total;  // a collective was in flight, on any communicator, per step
  std::vector<CollectiveSummary> collectives;  // by collective, then group
  MemoryForecast memory;  // of a class that does not fit, else of the highest peak
  // By first rank: of a pipeline, the first and the last stage's.
  MemoryForecast memory_of_first_class{}, memory_of_last_class{};
  // By first rank; empty where all ranks are one class.
  std::vector<ClassForecast> classes{};
};

// The memory that decides whether the step fits: of the class that does so least probably.
const MemoryForecast& LeastProbable(const Forecast& forecast);

}  // namespace stepcast::forecast
