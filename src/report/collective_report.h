#pragma once

#include <string>

#include "src/forecast/collective_forecast.h"

// The output of `stepcast collective`: the table of nccl-tests, with algorithm and provenance.
namespace stepcast::report {

// `name` is the scenario's.
std::string CollectiveText(const std::string& name, const forecast::CollectiveForecast& forecast);
// A heading line with the keys of the JSON rows; protocol and channels are empty where there are
// none.
std::string CollectiveCsv(const forecast::CollectiveForecast& forecast);
// The document of `collective --json`, version 1.
std::string CollectiveJson(const std::string& name, const forecast::CollectiveForecast& forecast);

}  // namespace stepcast::report
