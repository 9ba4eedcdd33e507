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

// Which sizes of an operation are measured in the time that there is, and in which order.
//
// The smallest come first and tell what larger ones may take. Then comes the largest whose table
// fits in the time, so that no size below it is ever extrapolated, and what it really takes is
// known early. Then the widest gap between neighbours is halved again and again: however soon the
// time is up, what was measured covers the whole range evenly.

// Size and seconds, ascending.
using MeasuredSizes = std::vector<std::pair<std::int64_t, double>>;

struct SizePlan {
  std::vector<std::int64_t> sizes;  // ascending, all that would be measured in enough time
  std::size_t first = 2;            // how many of the smallest come first, together
  double longest = 0;               // seconds; no size that is expected to take longer
  double program = 0;  // seconds that a program takes beside what it measures, to be set up
};

struct NextSizes {
  std::vector<std::int64_t> sizes;  // none: the plan is done
  double expected = 0;              // seconds, of the longest of them
  bool briefly = false;             // time is short: long operations are repeated less
};

// How often an operation of so many seconds is run at least, of `least` that a short one is.
std::size_t LeastRuns(std::size_t least, double seconds, bool briefly);

// An operation this long is not warmed up: its own beginning is a small part of it.
constexpr double kNeedsNoWarmup = 1;  // seconds

// The sizes to measure after `measured`, when `left` seconds are left. Requires that `measured` is
// empty or holds the first sizes.
NextSizes Next(const SizePlan& plan, std::size_t least, const MeasuredSizes& measured, double left);

// One calibration's way of measuring, on all ranks at once. Ranks go through the same calls in the
// same order; rank 0 alone decides how often something is repeated and knows what was measured
// before, and tells the others. So all ranks have the same results and can decide by them.

// Results of a calibration so far, so that an interrupted one can go on: results by key, and the
// machine and options that they hold for. As text:
//
//   stepcast calibration state 1
//   host, 4 ranks on 2 nodes, quick, ...
//   gemm fp32 64 64 64<tab>median<tab>low<tab>high<tab>spread<tab>count
//
// Keys and the binding have neither tabs nor line ends (they become spaces). Numbers are written so
// that they read back to the same value.
class MeasurementState {
 public:
  explicit MeasurementState(std::string_view binding);

  // Nothing when `text` is not such a state, or was cut off.
  static std::optional<MeasurementState> Parse(std::string_view text);
  std::string Text() const;

  const std::string& binding() const { return binding_; }
  const Summary* Find(const std::string& key) const;
  void Add(const std::string& key, const Summary& summary);

 private:
  std::string binding_;
  std::map<std::string, Summary> results_;
};

// One summary as five numbers with tabs between them, and back.
std::string SummaryText(const Summary& summary);
std::optional<Summary> ParseSummary(std::string_view text);

// Called on rank 0 only.
struct Observer {
  // The present measurement, for a line of progress.
  std::function<void(const std::string& what)> progress;
  // A measurement was completed: the state to store.
  std::function<runtime::Attempt<void>(const std::string& state)> save;
};

class Session {
 public:
  // `state` counts on rank 0.
  Session(runtime::Job& job, Runner runner, MeasurementState state, Observer observer);

  // The benchmark of some of the keys, by their positions: one probe for each, in their order.
  using Build = std::function<Benchmark(const std::vector<std::size_t>& wanted)>;

  // A result for each key: from an earlier calibration, or measured and repeated until precise
  // enough. `expected` is how long one operation is thought to take; long ones are repeated less.
  runtime::Attempt<std::vector<Summary>> Measure(const std::vector<std::string>& keys,
                                                 Repetition repetition, Time expected,
                                                 const Build& build);

  // What rank 0 says a quantity is, the first time that it is asked for under this key, also by an
  // earlier run that was interrupted. `now` is called on rank 0 alone, above zero.
  runtime::Attempt<double> Settle(const std::string& key, const std::function<double()>& now);

  // Sizes that ascend, and where to stop.
  struct Ladder {
    std::string what;  // the beginning of all keys; the size follows
    std::vector<std::int64_t> sizes;
    std::string (*show)(std::int64_t size) = nullptr;
    std::size_t first = 1;  // how many go in the first program
    std::size_t next = 2;   // and in each further one
    double power = 1;       // a size r times as large is expected to take r^power as long
    Time longest;           // no operation that is expected to take longer
    Time budget;            // device time for all sizes together, as expected
  };
  // The results of the sizes that were reached, at least those of the first program. `build` gets
  // sizes.
  runtime::Attempt<std::vector<std::pair<std::int64_t, Summary>>> Climb(
      const Ladder& ladder, const Repetition& repetition,
      const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build);

  // Sizes from both ends to the middle (session.h), in `budget` of device time. The results, by
  // size; what they took is added to `spent`.
  runtime::Attempt<std::vector<std::pair<std::int64_t, Summary>>> Cover(
      const std::string& what, const SizePlan& plan, Time budget, const Repetition& repetition,
      const std::function<Benchmark(const std::vector<std::int64_t>& sizes)>& build, double& spent);

  runtime::Job& job() { return job_; }

 private:
  runtime::Attempt<std::string> Decide(const std::vector<std::string>& keys);
  // Rank 0's side of Measure: takes a batch's samples in.
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
