#pragma once

#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"

namespace stepcast::forecast {

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
