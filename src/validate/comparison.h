#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/program/program.h"
#include "src/validate/execution.h"

// Compares a forecast with an execution of the same step program.
namespace stepcast::validate {

struct TimePair {
  std::string name;
  std::int64_t calls = 0;  // number of calls in one step, if applicable
  Time forecast, measured;

  Time difference() const { return forecast - measured; }
};

struct BytesPair {
  Bytes forecast, measured;
};

// The forecast and the measurement of one operation of the step. Starts are relative to the step's
// start. Measured values are medians over the measured steps on the critical rank.
struct OperationPair {
  program::Index instruction = program::kNone;
  Time forecast_start, forecast_duration;
  Time measured_start, measured_duration;

  Time difference() const { return forecast_duration - measured_duration; }
};

struct Comparison {
  TimePair step;
  std::vector<TimePair> time;  // forward, backward, optimizer, exposed communication, idle
  TimePair communication;      // time with communication in flight
  // The totals over the operations of one step, in the program's order. Kernels are summed by name,
  // copies by direction, and collectives by kind and group.
  std::vector<TimePair> kinds;
  BytesPair peak;
  std::vector<OperationPair> largest;  // the largest differences in duration; at most kLargest

  // Returns the error of the step time, (forecast - measured) / measured. Zero if forecast and
  // measurement are zero.
  double step_error() const;
};
inline constexpr std::size_t kLargest = 10;

// Compares a forecast with an execution. The forecast and the execution must be of the same
// scenario.
Comparison Compare(const forecast::Run& forecast, const Execution& execution);

}  // namespace stepcast::validate
