#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/calibrate/benchmark.h"
#include "src/calibrate/measurement_state.h"
#include "src/calibrate/repetition.h"
#include "src/calibrate/size_plan.h"
#include "src/calibrate/statistics.h"
#include "src/runtime/job.h"

// One calibration's way of measuring, on all ranks at once. Ranks go through the same calls in the
// same order; rank 0 alone decides how often something is repeated and knows what was measured
// before, and tells the others. So all ranks have the same results and can decide by them.
namespace stepcast::calibrate {

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

  // Sizes from both ends to the middle (size_plan.h), in `budget` of device time. The results, by
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
