#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/model/model.h"
#include "src/scenario/scenario.h"

namespace stepcast::forecast {

// Computes the duration and cost of a whole training run from one step.

// The parts of a run's time in which its GPUs compute, as fractions.
struct UsedTime {
  double work = 1;  // steps that no failure destroys
  double busy = 1;  // these, and steps that are repeated after a failure
};

// A training run as the user describes it: tokens, price, availability and deadline.
struct TrainingTarget {
  double tokens = 0;                   // total tokens; 0: not given
  std::optional<double> deadline;      // seconds; needs `tokens`
  double gpu_hour_price = 0;           // 0: not given
  std::string currency;                // currency of the price, such as "$"; empty: not named
  std::optional<double> availability;  // fraction of the time in which GPUs train; not given: 1
                                       // The availability is above 0 and at most 1.
  // The time that a number of GPUs use, if failures are counted (long_run.h); null: they are not.
  std::function<UsedTime(std::int64_t gpus)> effective{};
  double pue = 0;  // power usage effectiveness of the data center; 0: reports show no energy

  bool said() const { return tokens > 0 || gpu_hour_price > 0; }
};

// One step of the training, as a basis for its duration and cost.
struct TrainedStep {
  Time time;
  std::int64_t tokens = 0;
  std::int64_t gpus = 0;
  double joules = 0;      // energy of one GPU in the step
  double idle_watts = 0;  // power of one GPU while it does not compute
};

// Returns the step of a forecast. `gpus` is the number of GPUs behind the forecast's rates.
TrainedStep TrainedStepOf(const Forecast& forecast);

// The time that the GPUs of `step` use.
UsedTime UsedTimeOf(const TrainingTarget& target, const TrainedStep& step);
// Returns the fraction of the time in which the GPUs of `step` train.
double AvailabilityOf(const TrainingTarget& target, const TrainedStep& step);

// Returns the duration of the training in seconds. It includes whole steps, and the time in which
// GPUs do not train. Requires target.tokens.
double TrainingSeconds(const TrainingTarget& target, const TrainedStep& step);
// Returns the GPU hours that must be paid, including the time in which GPUs do not train. Requires
// target.tokens.
double GpuHours(const TrainingTarget& target, const TrainedStep& step);
// Returns the energy of the GPUs in `seconds`, in joules; they compute for the fraction `busy`.
double GpuJoules(const TrainedStep& step, double seconds, double busy);
// Returns the energy of the training in joules, including the time in which GPUs do not train and
// target.pue. Requires target.tokens.
double EnergyOfTraining(const TrainingTarget& target, const TrainedStep& step);
// Returns the price of the training, in target.currency. Requires target.tokens and
// target.gpu_hour_price.
double MoneyOfTraining(const TrainingTarget& target, const TrainedStep& step);
// Returns the price of a million tokens, in target.currency. Requires target.gpu_hour_price.
double MoneyOfMillionTokens(const TrainingTarget& target, const TrainedStep& step);
// Returns whether the training ends before its deadline. True without a deadline.
bool MeetsDeadline(const TrainingTarget& target, const TrainedStep& step);

// Sets tokens per second, MFU and HFU from the step time in `forecast`, which may be forecast or
// measured.
void FillThroughput(const scenario::Scenario& scenario, Forecast& forecast);

// The FLOPs of a micro-batch. Model FLOPs and recomputed FLOPs are counted as if attention had no
// mask. The other figures are the FLOPs that matrix products and attention execute.
struct MicroBatchFlops {
  double once = 0, recomputed = 0;
  double executed = 0;
};
// Returns the FLOPs of one micro-batch. `works` is the result of model::BuildWork for the scenario.
// The numbers of ranks and micro-batches do not matter.
MicroBatchFlops FlopsOf(const scenario::Scenario& scenario,
                        const std::vector<model::LayerWork>& works);
// Like the function above, but the FLOPs are already computed.
void FillThroughput(const scenario::Scenario& scenario, const MicroBatchFlops& flops,
                    Forecast& forecast);

// One line of a time breakdown.
struct TimePart {
  const char* name = "";  // "exposed communication"
  const char* key = "";   // in JSON: "exposed_communication"
  Time time;
  bool always = true;  // false: shown only if not zero
};

// Returns the parts of a step's time in display order. They add up to the step time.
std::vector<TimePart> PartsOf(const TimeBreakdown& time);

}  // namespace stepcast::forecast
