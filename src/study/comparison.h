#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// Two plans, each with its forecast.
namespace stepcast::study {

struct ComparisonQuestion {
  std::string a, b;              // scenario files; without b both are a
  std::vector<std::string> set;  // "KEY=VALUE", of both
  std::vector<std::string> set_a, set_b;
};

struct Comparison {
  scenario::Scenario a, b;
  forecast::Forecast of_a, of_b;
};

// Errors: the mistakes of both, once where they are the same. Those in what one of the two has of
// its own are located at "--set-a KEY=VALUE" and "--set-b KEY=VALUE".
Result<Comparison> Compare(const ComparisonQuestion& question);

}  // namespace stepcast::study
