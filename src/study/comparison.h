#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
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

}  // namespace stepcast::study
