#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/report/answers.h"
#include "src/scenario/scenario.h"

// The memory that a scenario needs at each ZeRO stage.
namespace stepcast::study {

struct MemoryQuestion {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  bool max_micro_batch = false;  // also find the largest micro-batch that fits, at each stage
};

struct StagesMemory {
  scenario::Scenario scenario;
  report::MemoryReport report;
  // The memory at the scenario's own stage, which decides whether the answer is "fits". With
  // `max_micro_batch`: for the largest micro-batch that fits, or for one sequence if none fits.
  forecast::MemoryForecast own;
  std::optional<report::Fitting> fitting{};  // if the scenario does not fit: settings that make it
                                             // fit, without a command
};

// Forecasts the memory at each stage. Errors are those of forecasts, and command.no-micro-batch for
// layer lists with `max_micro_batch`.
Result<StagesMemory> MemoryOfStages(const MemoryQuestion& question);

}  // namespace stepcast::study
