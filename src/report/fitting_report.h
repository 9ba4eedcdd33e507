#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/report/command_text.h"
#include "src/report/json.h"

namespace stepcast::report {

// Settings that make a step fit that otherwise does not.
struct FittingSettings {
  std::vector<std::string> set;  // "KEY=VALUE", in addition to the scenario's settings
  Time step_time;
  Bytes left;  // free memory of the fullest device; negative if it lacks memory
  double fit_probability = 0;
};

// The settings that save memory, tried one at a time and together.
struct Fitting {
  std::vector<FittingSettings> settings;   // those that make it fit, fastest first
  std::optional<FittingSettings> nearest;  // without any: what lacks the least memory
  Time step_time;                          // without them
  int forecasts = 0;                       // how many were forecast
  bool stopped = false;                    // the time was over before all were tried
  CommandWords command;                    // forecasts the step; without words: no command does
};

// A table of such settings for people, with the commands that forecast them. Empty if nothing was
// tried.
std::string FittingText(const Fitting& fitting);
// `would_fit` of answers.
Json FittingJson(const Fitting& fitting);

}  // namespace stepcast::report
