#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/report/answers.h"

// Conditions on the change of a value from one plan to another (`compare --fail-if`).
namespace stepcast::study {

// A value for which conditions are possible (guard.cc).
struct GuardedFigure;

// A condition such as "step_time>+2%", which fails if the change from A to B is above the limit or,
// with '<', below the limit.
struct Guard {
  std::string text;
  const GuardedFigure* figure = nullptr;
  bool above = true;
  bool relative = true;  // true: `limit` is a fraction of A's value; false: in seconds, bytes or
                         // tokens/s
  double limit = 0;
};

// Parses conditions. Mistakes are appended to `faults`, with the position "--fail-if TEXT".
std::vector<Guard> ReadGuards(const std::vector<std::string>& texts, Diagnostics& faults);

report::GuardVerdict VerdictOf(const Guard& guard, const forecast::Forecast& a,
                               const forecast::Forecast& b);

}  // namespace stepcast::study
