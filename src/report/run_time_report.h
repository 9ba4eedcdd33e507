#pragma once

#include <string>

#include "src/forecast/long_run.h"
#include "src/scenario/scenario.h"

// The output of `run-time`: how long a run takes with its failures, what it costs, and on what it
// depends.
namespace stepcast::report {

std::string RunTimeText(const scenario::Scenario& scenario, const forecast::WholeRun& run);

// The document of `run-time --json`, version 1.
std::string RunTimeJson(const scenario::Scenario& scenario, const forecast::WholeRun& run,
                        double seconds);

// The same as one HTML page.
std::string RunTimePage(const scenario::Scenario& scenario, const forecast::WholeRun& run);

}  // namespace stepcast::report
