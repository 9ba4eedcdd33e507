#pragma once

#include <string>

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// Two plans side by side: what they say differently, and where their time and memory differ.
namespace stepcast::report {

struct ComparedPlan {
  std::string file;  // as the user named it
  const scenario::Scenario* scenario = nullptr;
  const forecast::Forecast* forecast = nullptr;
};

// Differences are those of b from a.
std::string CompareText(const ComparedPlan& a, const ComparedPlan& b);

// The document of `compare --json`, version 1. Everything but its last key, `run`, depends on the
// input alone; `seconds` is the wall-clock time of the run.
std::string CompareJson(const ComparedPlan& a, const ComparedPlan& b, double seconds);

}  // namespace stepcast::report
