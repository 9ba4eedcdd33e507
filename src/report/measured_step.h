#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/explaining_speed.h"
#include "src/forecast/values.h"
#include "src/report/json.h"

// Why a measured step takes another time than its forecast, as `explain --measured` shows it: what
// could explain the difference, by itself.
namespace stepcast::report {

// The scenario with one thing set otherwise.
struct TriedSetting {
  std::vector<std::string> set;  // "KEY=VALUE"
  Time step_time;
  double explains = 0;    // the part of the difference; 1: all of it
  const char* next = "";  // what to look at
};

struct MeasuredStep {
  Time measured;
  std::optional<bool> in_range;                      // none where the forecast has no range
  std::vector<TriedSetting> settings;                // the best explanation first
  std::vector<forecast::ExplainingSpeed> resources;  // likewise
};

std::string MeasuredStepText(const forecast::Forecast& forecast, const MeasuredStep& step);
Json MeasuredStepJson(const forecast::Forecast& forecast, const MeasuredStep& step);

}  // namespace stepcast::report
