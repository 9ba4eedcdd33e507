#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/report/answers.h"
#include "src/scenario/scenario.h"

// Forecasts two plans for comparison.
namespace stepcast::study {

struct ComparisonQuestion {
  std::string a, b;              // scenario files; if `b` is empty, both plans use `a`
  std::vector<std::string> set;  // "KEY=VALUE", for both plans
  std::vector<std::string> set_a, set_b;
};

struct Comparison {
  scenario::Scenario a, b;
  forecast::Forecast of_a, of_b;
};

// Loads and forecasts both plans. Errors: the mistakes of both plans, with duplicates removed.
// Mistakes in settings of only one plan are located at "--set-a KEY=VALUE" or "--set-b KEY=VALUE".
Result<Comparison> Compare(const ComparisonQuestion& question);

// Conditions on the change of a value from one plan to another (`compare --fail-if`).

// A value for which conditions are possible (comparison.cc).
struct GuardedFigure;

// A condition such as "step_time>+2%", which fails if the change from A to B is above the limit or,
// with '<', below the limit.
struct Guard {
  std::string text;
  const GuardedFigure* figure = nullptr;
  bool above = true;
  bool relative = true;  // true: `limit` is a fraction of A's value; false: an absolute value
  double limit = 0;
};

// Parses conditions. Mistakes are appended to `faults`, with the position "--fail-if TEXT".
std::vector<Guard> ReadGuards(const std::vector<std::string>& texts, Diagnostics& faults);

report::GuardVerdict VerdictOf(const Guard& guard, const forecast::Forecast& a,
                               const forecast::Forecast& b);

}  // namespace stepcast::study
