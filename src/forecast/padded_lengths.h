#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// Steps with micro-batches of different lengths (training.lengths, padded or by length). The
// scenario is forecast for each possible length, and the forecasts are weighted by the probability
// of the length.
//
// With padding, samples are in random order. A micro-batch of b samples is padded to its longest
// sample, which has length l with probability F(l)^b - F(l-)^b. Ranks with different samples wait
// for each other:
// - If they communicate in each micro-batch (gathered shards, experts, a step of one micro-batch),
//   they wait for the longest of all ranks' b samples.
// - If they communicate only at the end of a step, they wait for the rank with the longest total
//   time (MeanOfLargest).
//
// If samples are batched by length, the samples of a step have similar lengths. The forecast uses
// one length for all micro-batches of a step, without padding. A step's time is linear in the times
// of its micro-batches. The mean step time is therefore the time of a step whose micro-batches all
// take the mean time.
//
// The memory forecast assumes only the longest micro-batches.
namespace stepcast::forecast {

// The distribution of the largest of several random values.

// Returns, for each value i, the probability that value i is the largest of `draws` independent
// random values. The probability is F(i)^n - F(i - 1)^n, where F is the cumulative probability and
// n is `draws`. `probabilities` are in ascending order of the values. The sum of the probabilities
// must be 1.
std::vector<double> OfLargest(std::span<const double> probabilities, double draws);

// Returns the expected maximum of `ranks` means, each of `draws` random values. Means are rounded
// to a grid of 512 steps between the smallest and largest value, so the error is at most one step
// upward. With one rank, the result is exact.
double MeanOfLargest(std::span<const double> values, std::span<const double> probabilities,
                     std::int64_t draws, std::int64_t ranks);

class PaddedLengths {
 public:
  // Requires training.has_padded_lengths. The scenario must outlive the object.
  explicit PaddedLengths(const scenario::Scenario& scenario);
  // Returns the scenario with all samples of the largest length.
  static scenario::Scenario Longest(const scenario::Scenario& scenario);

  // Returns one scenario for each possible sample length, shortest first. All samples of one
  // scenario have the same length. Lengths with a probability below 10^-12 per step are omitted.
  const std::vector<scenario::Scenario>& scenarios() const { return scenarios_; }

  // Combines the forecasts of scenarios(), in the same order. `flops_of` returns the FLOPs of a
  // micro-batch in one of these scenarios.
  Forecast Combine(const std::vector<Forecast>& forecasts,
                   const std::function<MicroBatchFlops(const scenario::Scenario&)>& flops_of) const;

 private:
  Time StepTime(const std::vector<Forecast>& forecasts) const;
  MicroBatchFlops MeanFlops(
      const std::function<MicroBatchFlops(const scenario::Scenario&)>& flops_of) const;

  const scenario::Scenario& scenario_;
  std::vector<scenario::Scenario> scenarios_;
  bool wait_in_micro_batches_ = true;
  std::vector<double> of_rank_;  // indexed by scenario: fraction of a rank's micro-batches
  std::vector<double> of_step_;  // by scenario: fraction of steps
};

// Returns whether ranks with different samples communicate before the last micro-batch of a step.
bool RanksMeetInMicroBatches(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
