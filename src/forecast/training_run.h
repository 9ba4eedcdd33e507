#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/time.h"
#include "src/forecast/values.h"

// The whole training that a step is one of: how long it takes and what it costs.
namespace stepcast::forecast {

// A whole training as its user describes it (tokens, price, availability), and the deadline that it
// has to meet.
struct TrainingTarget {
  double tokens = 0;                   // that it sees; 0: not said
  std::optional<double> deadline;      // seconds; needs `tokens`
  double gpu_hour_price = 0;           // 0: not said
  std::string currency;                // of the price, "$"; empty: any
  std::optional<double> availability;  // the part of the time in which its GPUs train, above 0 and
                                       // at most 1; not said: all of it

  bool said() const { return tokens > 0 || gpu_hour_price > 0; }
};

// A step of it.
struct TrainedStep {
  Time time;
  std::int64_t tokens = 0;
  std::int64_t gpus = 0;
};

// `gpus` are those that its rates count.
TrainedStep TrainedStepOf(const Forecast& forecast);

// How long the training takes, by whole steps, with the time in which the GPUs do not train.
// Requires target.tokens.
double TrainingSeconds(const TrainingTarget& target, const TrainedStep& step);
// The hours for which its GPUs are paid: they are kept while they do not train. Requires
// target.tokens.
double GpuHours(const TrainingTarget& target, const TrainedStep& step);
// Requires target.tokens and target.gpu_hour_price.
double MoneyOfTraining(const TrainingTarget& target, const TrainedStep& step);
// Requires target.gpu_hour_price.
double MoneyOfMillionTokens(const TrainingTarget& target, const TrainedStep& step);
// True without a deadline.
bool MeetsDeadline(const TrainingTarget& target, const TrainedStep& step);

}  // namespace stepcast::forecast
