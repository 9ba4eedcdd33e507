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

// Computes the duration and cost of a training run from the time of one step.

// The fractions of a run's time in which its GPUs compute.
struct UsedTime {
  double work = 1;  // steps that are not lost in failures
  double busy = 1;  // `work`, and steps that are repeated after a failure
};

// A training run as the user describes it: tokens, price, availability and deadline.
struct TrainingTarget {
  double tokens = 0;                   // total tokens; 0: unknown
  std::optional<double> deadline;      // seconds; requires `tokens`
  double gpu_hour_price = 0;           // 0: unknown
  std::string currency;                // currency of the price, such as "$"; may be empty
  std::optional<double> availability;  // fraction of time in which GPUs train; none: 1
  // Returns the fractions of time in which `gpus` GPUs compute, given failures (long_run.h). Null:
  // no failures.
  std::function<UsedTime(std::int64_t gpus)> effective{};
  double pue = 0;  // power usage effectiveness of the data center; 0: reports show no energy

  bool said() const { return tokens > 0 || gpu_hour_price > 0; }
};

// A step, from which the duration and cost of training are computed.
struct TrainedStep {
  Time time;
  std::int64_t tokens = 0;
  std::int64_t gpus = 0;
  double joules = 0;      // energy of one GPU in the step
  double idle_watts = 0;  // power of one GPU while it does not compute
};

// Returns the step of a forecast for `gpus` GPUs, to which the forecast's rates apply.
TrainedStep TrainedStepOf(const Forecast& forecast);

// Returns the fractions of time in which the GPUs of `step` compute.
UsedTime UsedTimeOf(const TrainingTarget& target, const TrainedStep& step);
// Returns the fraction of time in which the GPUs of `step` train.
double AvailabilityOf(const TrainingTarget& target, const TrainedStep& step);

// Returns the duration of the training in seconds, including time in which GPUs do not train. The
// number of steps is rounded up. Requires target.tokens.
double TrainingSeconds(const TrainingTarget& target, const TrainedStep& step);
// Returns the GPU hours to pay for, including time in which GPUs do not train. Requires
// target.tokens.
double GpuHours(const TrainingTarget& target, const TrainedStep& step);
// Returns the energy of the GPUs in `seconds`, in joules, if they compute for the fraction `busy`.
double GpuJoules(const TrainedStep& step, double seconds, double busy);
// Returns the energy of the training in joules, multiplied by target.pue, including time in which
// GPUs do not train. Requires target.tokens.
double EnergyOfTraining(const TrainingTarget& target, const TrainedStep& step);
// Returns the price of the training, in target.currency. Requires target.tokens and
// target.gpu_hour_price.
double MoneyOfTraining(const TrainingTarget& target, const TrainedStep& step);
// Returns the price of a million tokens, in target.currency. Requires target.gpu_hour_price.
double MoneyOfMillionTokens(const TrainingTarget& target, const TrainedStep& step);
// Returns whether the training ends before its deadline. True without a deadline.
bool MeetsDeadline(const TrainingTarget& target, const TrainedStep& step);

// Sets tokens per second, MFU and HFU from the (forecast or measured) step time in `forecast`.
void FillThroughput(const scenario::Scenario& scenario, Forecast& forecast);

// The FLOPs of a micro-batch. `once` (model FLOPs) and `recomputed` include masked attention
// scores. `executed` are the FLOPs that matrix multiplications and attention kernels execute.
struct MicroBatchFlops {
  double once = 0, recomputed = 0;
  double executed = 0;
};
// Returns the FLOPs of one micro-batch of the complete model. `works` is the result of
// model::BuildWork for the scenario.
MicroBatchFlops FlopsOf(const scenario::Scenario& scenario,
                        const std::vector<model::LayerWork>& works);
// Sets tokens per second, MFU and HFU like the other FillThroughput, from the FLOPs of a
// micro-batch, `flops`.
void FillThroughput(const scenario::Scenario& scenario, const MicroBatchFlops& flops,
                    Forecast& forecast);

// One line of a time breakdown.
struct TimePart {
  const char* name = "";  // name in text: "exposed communication"
  const char* key = "";   // key in JSON: "exposed_communication"
  Time time;
  bool always = true;  // false: shown only if not zero
};

// Returns the parts of a step's time in display order. The parts add up to the step time.
std::vector<TimePart> PartsOf(const TimeBreakdown& time);

}  // namespace stepcast::forecast
