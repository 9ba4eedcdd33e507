#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/model/model.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// The whole training that a step is one of: how long it takes and what it costs.

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

// Tokens per second and the share of the devices' peak that is used, from the step time that
// `forecast` has, be it forecast or measured.
void FillThroughput(const scenario::Scenario& scenario, Forecast& forecast);

// Of a micro-batch: what MFU counts, which is done once, and what is done again for lack of memory,
// both as if attention had no mask; and what matrix products and attention's cores execute.
struct MicroBatchFlops {
  double once = 0, recomputed = 0;
  double executed = 0;
};
// `works` is model::BuildWork of the scenario; numbers of ranks and of micro-batches do not matter.
MicroBatchFlops FlopsOf(const scenario::Scenario& scenario,
                        const std::vector<model::LayerWork>& works);
// The same where these are known.
void FillThroughput(const scenario::Scenario& scenario, const MicroBatchFlops& flops,
                    Forecast& forecast);

// One line of a breakdown.
struct TimePart {
  const char* name = "";  // "exposed communication"
  const char* key = "";   // in JSON: "exposed_communication"
  Time time;
  bool always = true;  // false: shown where there is some
};

// The parts of a step's time, in the order in which they are shown; they add up to the step.
std::vector<TimePart> PartsOf(const TimeBreakdown& time);

}  // namespace stepcast::forecast
