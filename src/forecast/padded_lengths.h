#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// Steps whose micro-batches differ in length (training.lengths, padded or by length): the scenario
// is forecast at each length to which a micro-batch may be padded, and the forecasts are one answer
// by how probable each length is.
//
//   padded     Samples come in no order. A micro-batch of b samples has the length of the longest,
//              F(l)^b - F(l-)^b. Ranks of different replicas wait for each other:
//              - where they communicate in each micro-batch (shards that are gathered, experts, a
//                step of one micro-batch), for the longest of all ranks' b samples;
//              - where they meet at the end of a step alone, for the rank whose micro-batches take
//                longest together (padded_lengths.h).
//   by length  The samples of a step are neighbours in the order of lengths, so that its
//              micro-batches, on all ranks, have one length, and none is padded.
//
// A step's time is linear in its micro-batches' times, so that the mean of steps is the step of
// micro-batches of mean time. Memory is that of a job whose micro-batches are all the longest.
namespace stepcast::forecast {

// The largest of several draws.

// The probability of each value that it is the largest of `draws` independent draws. The values are
// in ascending order, and `probabilities` are those of one draw, which add up to one. The result is
// F(i)^n - F(i - 1)^n, F being their running sum and n the number of draws.
std::vector<double> OfLargest(std::span<const double> probabilities, double draws);

// Each of `ranks` takes the mean of `draws` values: the expectation of the largest of these means.
// Means are rounded to a grid of 512 steps between the smallest and the largest value, which keeps
// the expectation of one rank's exactly and makes the largest one's too large, if at all: by less
// than a step.
double MeanOfLargest(std::span<const double> values, std::span<const double> probabilities,
                     std::int64_t draws, std::int64_t ranks);

class PaddedLengths {
 public:
  // Requires that the training has_padded_lengths. The scenario must outlive this.
  explicit PaddedLengths(const scenario::Scenario& scenario);
  // The scenario if every sample were as long as the longest.
  static scenario::Scenario Longest(const scenario::Scenario& scenario);

  // The scenario if every sample had one of the lengths, ascending; those that no step has but once
  // in 10^12 are left out. The last is of the longest samples.
  const std::vector<scenario::Scenario>& scenarios() const { return scenarios_; }

  // One forecast of those of scenarios(). `flops_of` gives the work of a scenario of one length.
  Forecast Combine(const std::vector<Forecast>& forecasts,
                   const std::function<MicroBatchFlops(const scenario::Scenario&)>& flops_of) const;

 private:
  Time StepTime(const std::vector<Forecast>& forecasts) const;
  MicroBatchFlops MeanFlops(
      const std::function<MicroBatchFlops(const scenario::Scenario&)>& flops_of) const;

  const scenario::Scenario& scenario_;
  std::vector<scenario::Scenario> scenarios_;
  bool wait_in_micro_batches_ = true;
  std::vector<double> of_rank_;  // by scenario: the part of a rank's micro-batches
  std::vector<double> of_step_;  // and of what steps take; the same where ranks meet at the end
};

// Whether ranks that train on different samples communicate before a step's last micro-batch.
bool RanksMeetInMicroBatches(const scenario::Scenario& scenario);

}  // namespace stepcast::forecast
