#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/report/answers.h"

// The figures that must not get worse from one plan to another (`compare --fail-if`).
namespace stepcast::study {

// A figure that a condition can name (guard.cc).
struct GuardedFigure;

// A condition such as "step_time>+2%". It fails if the change from A to B is above the limit; with
// '<', if the change is below.
struct Guard {
  std::string text;
  const GuardedFigure* figure = nullptr;
  bool above = true;
  bool relative = true;  // `limit` is a part of A's figure; else in seconds, bytes or tokens/s
  double limit = 0;
};

// Parses conditions. Mistakes go to `faults`, located at "--fail-if TEXT".
std::vector<Guard> ReadGuards(const std::vector<std::string>& texts, Diagnostics& faults);

report::GuardVerdict VerdictOf(const Guard& guard, const forecast::Forecast& a,
                               const forecast::Forecast& b);

}  // namespace stepcast::study
