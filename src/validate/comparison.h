#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/program/program.h"
#include "src/validate/execution.h"

// A forecast and an execution of the same step program, side by side.
namespace stepcast::validate {

struct TimePair {
  std::string name;
  std::int64_t calls = 0;  // in one step, where that has a meaning
  Time forecast, measured;

  Time difference() const { return forecast - measured; }
};

struct BytesPair {
  Bytes forecast, measured;
};

// One operation of the step. Starts are times since the step's start. What was measured is the
// median over the measured steps, on the critical rank.
struct OperationPair {
  program::Index instruction = program::kNone;
  Time forecast_start, forecast_duration;
  Time measured_start, measured_duration;

  Time difference() const { return forecast_duration - measured_duration; }
};

struct Comparison {
  TimePair step;
  std::vector<TimePair> time;  // forward, backward, optimizer, exposed communication, idle
  TimePair communication;      // in flight
  // Sums over the operations of one step: kernels by name, copies by direction, collectives by kind
  // and group; in the order in which the program first has them.
  std::vector<TimePair> kinds;
  BytesPair peak;
  std::vector<OperationPair> largest;  // by difference of duration, at most kLargest

  // (forecast - measured) / measured; zero where both are zero.
  double step_error() const;
};
inline constexpr std::size_t kLargest = 10;

// Both must be of the same scenario.
Comparison Compare(const forecast::Run& forecast, const Execution& execution);

}  // namespace stepcast::validate
