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

// Decides which sizes of an operation are measured in the available time, in this order:
//   1. The smallest sizes, whose times predict the times of larger sizes.
//   2. The largest size for which the complete table can be measured in the available time.
//   3. Repeatedly, a size in the middle of the widest gap, so that the measured sizes are evenly
//     distributed.

// Pairs of a size and its measured time in seconds, ascending by size.
using MeasuredSizes = std::vector<std::pair<std::int64_t, double>>;

struct SizePlan {
  std::vector<std::int64_t> sizes;  // sizes to measure if there is enough time, ascending
  std::size_t first = 2;            // number of smallest sizes in the first program
  double longest = 0;               // seconds; sizes with a longer expected time are skipped
  double program = 0;               // seconds to set up each program
};

struct NextSizes {
  std::vector<std::int64_t> sizes;  // empty: nothing remains to be measured
  double expected = 0;              // expected seconds of the slowest of these sizes
  bool briefly = false;             // time is short, so long operations are repeated less often
};

// Returns the minimum number of runs of an operation that takes `seconds`. For short operations,
// the minimum is at least `least`.
std::size_t LeastRuns(std::size_t least, double seconds, bool briefly);

// Operations of at least this duration need no warm-up, because start-up is a small part of their
// time.
constexpr double kNeedsNoWarmup = 1;  // seconds

// Returns the sizes to measure next if `left` seconds remain. `measured` must be empty or include
// the smallest sizes.
NextSizes Next(const SizePlan& plan, std::size_t least, const MeasuredSizes& measured, double left);

// Measures on all ranks at once. All ranks make the same calls in the same order. Only rank 0 reads
// earlier results and determines repetitions; it sends both to the other ranks, so that all ranks
// decide alike.

// The results of a calibration so far, by key, from which an interrupted calibration can continue.
// The results are valid only for one machine and one set of options (the binding). As text:
//
//   stepcast calibration state 1
//   host, 4 ranks on 2 nodes, quick, ...
//   gemm fp32 64 64 64<tab>median<tab>low<tab>high<tab>spread<tab>count
//
// Tabs and line ends in keys and in the binding are replaced by spaces. Numbers are written without
// loss of precision.
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

// Convert a summary to five numbers separated by tabs, and back.
std::string SummaryText(const Summary& summary);
std::optional<Summary> ParseSummary(std::string_view text);

// Callbacks, which only rank 0 calls.
struct Observer {
  // Receives the name of the current measurement, for a progress line.
  std::function<void(const std::string& what)> progress;
  // Stores `state`. Called after each complete measurement.
  std::function<runtime::Attempt<void>(const std::string& state)> save;
};

class Session {
 public:
  // `state` is read only on rank 0.
  Session(runtime::Job& job, Runner runner, MeasurementState state, Observer observer);

  // Creates a benchmark for the keys at the positions `wanted`, with one probe per key, in this
  // order.
  using Build = std::function<Benchmark(const std::vector<std::size_t>& wanted)>;

  // Returns a result for each key, from an earlier calibration or from repeated measurements.
  // `expected` is the expected time of one operation; long operations are repeated less often.
  runtime::Attempt<std::vector<Summary>> Measure(const std::vector<std::string>& keys,
                                                 Repetition repetition, Time expected,
                                                 const Build& build);

  // Returns the number stored for this key. If no number is stored, calls `now` on rank 0, stores
  // the result, and returns it. `now` must return a positive number.
  runtime::Attempt<double> Settle(const std::string& key, const std::function<double()>& now);

  // The sizes to measure, ascending, and the limits of the measurement.
  struct Ladder {
    std::string what;  // prefix of all keys; the size is appended
    std::vector<std::int64_t> sizes;
    std::string (*show)(std::int64_t size) = nullptr;
    std::size_t first = 1;  // number of sizes in the first program
    std::size_t next = 2;   // number of sizes in each later program
    double power = 1;       // exponent of the expected growth: time ~ size^power
    Time longest;           // operations with a longer expected time are skipped
    Time budget;            // expected device time for all sizes together
  };
  // Returns the results of all measured sizes: at least the sizes of the first program. `build`
  // creates a benchmark for some of the sizes.
  runtime::Attempt<std::vector<std::pair<std::int64_t, Summary>>> Climb(
      const Ladder& ladder, const Repetition& repetition,
      const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build);

  // Measures sizes in the order of SizePlan, with at most `budget` of device time. Returns results
  // by size, and adds the used device time to `spent`.
  runtime::Attempt<std::vector<std::pair<std::int64_t, Summary>>> Cover(
      const std::string& what, const SizePlan& plan, Time budget, const Repetition& repetition,
      const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build, double& spent);

  runtime::Job& job() { return job_; }

 private:
  runtime::Attempt<std::string> Decide(const std::vector<std::string>& keys);
  // Rank 0's part of Measure: adds samples to the results.
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
