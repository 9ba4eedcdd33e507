#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/calibrate/benchmark.h"
#include "src/calibrate/statistics.h"
#include "src/runtime/job.h"

namespace stepcast::calibrate {

// Decides which sizes of an operation are measured in the available time, and in which order. The
// smallest sizes come first, because their times predict the times of larger sizes. Next is the
// largest size for which the whole table fits in the time. Its real time is then known early, and
// no smaller size has to be extrapolated. Then, the widest gap between neighbors is halved
// repeatedly, so that measurements cover the whole range evenly at any time.

// Sizes with their measured times in seconds, in ascending order of size.
using MeasuredSizes = std::vector<std::pair<std::int64_t, double>>;

struct SizePlan {
  std::vector<std::int64_t> sizes;  // sizes to measure if time suffices, ascending
  std::size_t first = 2;            // number of smallest sizes in the first program
  double longest = 0;               // seconds; sizes expected to take longer are skipped
  double program = 0;               // seconds of set-up per program
};

struct NextSizes {
  std::vector<std::int64_t> sizes;  // empty: the plan is complete
  double expected = 0;              // expected seconds of the longest of these sizes
  bool briefly = false;             // time is short: fewer repetitions of long operations
};

// Returns the smallest number of runs of an operation that takes `seconds`. Short operations are
// run at least `least` times.
std::size_t LeastRuns(std::size_t least, double seconds, bool briefly);

// The duration in seconds from which on operations need no warm-up. Their start is then a small
// part of the duration.
constexpr double kNeedsNoWarmup = 1;  // seconds

// Returns the sizes to measure next if `left` seconds remain. `measured` must be empty or contain
// the first sizes.
NextSizes Next(const SizePlan& plan, std::size_t least, const MeasuredSizes& measured, double left);

// Measures on all ranks at once. All ranks make the same calls in the same order. Only rank 0
// decides on repetitions and has earlier results; it sends both to the other ranks. All ranks
// therefore have the same results and can base decisions on them.

// The results of a calibration so far, so that an interrupted calibration can continue: results by
// key, and the machine and options for which they are valid (the binding). As text:
//
//   stepcast calibration state 1
//   host, 4 ranks on 2 nodes, quick, ...
//   gemm fp32 64 64 64<tab>median<tab>low<tab>high<tab>spread<tab>count
//
// Tabs and line ends in keys and binding become spaces. Numbers are written so that reading them
// gives the same value.
class MeasurementState {
 public:
  explicit MeasurementState(std::string_view binding);

  // Parses a state. Returns none if `text` is not a complete state.
  static std::optional<MeasurementState> Parse(std::string_view text);
  std::string Text() const;

  const std::string& binding() const { return binding_; }
  const Summary* Find(const std::string& key) const;
  void Add(const std::string& key, const Summary& summary);

 private:
  std::string binding_;
  std::map<std::string, Summary> results_;
};

// SummaryText converts a summary to five numbers separated by tabs. ParseSummary converts the text
// back.
std::string SummaryText(const Summary& summary);
std::optional<Summary> ParseSummary(std::string_view text);

// Callbacks that only rank 0 calls.
struct Observer {
  // Receives the name of the present measurement, for a progress line.
  std::function<void(const std::string& what)> progress;
  // Stores `state`. Called when a measurement is complete.
  std::function<runtime::Attempt<void>(const std::string& state)> save;
};

class Session {
 public:
  // Creates a session. Only the `state` of rank 0 is used.
  Session(runtime::Job& job, Runner runner, MeasurementState state, Observer observer);

  // A function that creates a benchmark for the keys at the positions `wanted`. The benchmark has
  // one probe for each key, in this order.
  using Build = std::function<Benchmark(const std::vector<std::size_t>& wanted)>;

  // Returns a result for each key. It is either from an earlier calibration, or measured with
  // enough repetitions. `expected` is the expected time of one operation; long operations are
  // repeated less often.
  runtime::Attempt<std::vector<Summary>> Measure(const std::vector<std::string>& keys,
                                                 Repetition repetition, Time expected,
                                                 const Build& build);

  // Returns a number that rank 0 decides when it is first requested under this key, possibly in an
  // earlier, interrupted calibration. `now` is called only on rank 0 and must return a positive
  // number.
  runtime::Attempt<double> Settle(const std::string& key, const std::function<double()>& now);

  // A list of sizes to measure, in ascending order, and the limits at which measurements stop.
  struct Ladder {
    std::string what;  // start of all keys; the size is appended
    std::vector<std::int64_t> sizes;
    std::string (*show)(std::int64_t size) = nullptr;
    std::size_t first = 1;  // number of sizes in the first program
    std::size_t next = 2;   // number in each further program
    double power = 1;       // r times the size should take r^power times the time
    Time longest;           // operations expected to take longer are skipped
    Time budget;            // expected device time for all sizes together
  };
  // Returns the results of all sizes that were measured: at least those of the first program.
  // `build` receives the sizes.
  runtime::Attempt<std::vector<std::pair<std::int64_t, Summary>>> Climb(
      const Ladder& ladder, const Repetition& repetition,
      const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build);

  // Measures sizes from both ends toward the middle (SizePlan), within `budget` of device time.
  // Returns results by size. Adds the device time that was used to `spent`.
  runtime::Attempt<std::vector<std::pair<std::int64_t, Summary>>> Cover(
      const std::string& what, const SizePlan& plan, Time budget, const Repetition& repetition,
      const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build, double& spent);

  runtime::Job& job() { return job_; }

 private:
  runtime::Attempt<std::string> Decide(const std::vector<std::string>& keys);
  // The part of Measure that rank 0 does: adds the samples of a batch to the results.
  struct Running;
  runtime::Attempt<void> TakeSamples(const Benchmark& benchmark, int steps,
                                     const program::Timeline& timeline, Running& running);
  runtime::Attempt<void> KeepCompleted(const std::vector<std::string>& keys,
                                       const Repetition& repetition, const Running& running);

  runtime::Job& job_;
  Runner runner_;
  MeasurementState state_;
  Observer observer_;
};

}  // namespace stepcast::calibrate
