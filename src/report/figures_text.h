#pragma once

#include <string>

#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// The parts of the pages that show figures of a step, be they forecast or measured. Each ends in a
// newline.
namespace stepcast::report {

// What was trained, on what and how.
std::string Header(const scenario::Scenario& scenario);

std::string Throughput(const forecast::Forecast& forecast);
std::string TimeTable(const forecast::Forecast& forecast);
std::string CollectiveTable(const forecast::Forecast& forecast);
std::string MemoryTable(const forecast::MemoryForecast& memory);

}  // namespace stepcast::report
