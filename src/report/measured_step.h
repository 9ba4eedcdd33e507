#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/forecast/what_if.h"
#include "src/validate/step_causes.h"

// Why a measured step takes another time than its forecast, as `explain --measured` shows it: where
// the difference lies, if the step was traced, and what could explain it by itself.
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
  std::int64_t number = 0;                           // of a traced step: ProfilerStep#
  std::optional<validate::StepCauses> causes;        // none if only the time is known
  std::optional<bool> in_range;                      // none where the forecast has no range
  std::vector<TriedSetting> settings;                // the best explanation first
  std::vector<forecast::ExplainingSpeed> resources;  // likewise
};

}  // namespace stepcast::report
