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
  // The memory at the ZeRO stage that the scenario sets. This memory decides whether the answer is
  // "fits". With `max_micro_batch`, this is the memory with the largest micro-batch that fits, or
  // with one sequence if no micro-batch fits.
  forecast::MemoryForecast own;
  std::optional<report::Fitting> fitting{};  // settings that make the scenario fit
};

// Forecasts the memory at each stage. Errors: the errors of forecasts, and command.no-micro-batch
// for layer lists with `max_micro_batch`.
Result<StagesMemory> MemoryOfStages(const MemoryQuestion& question);

}  // namespace stepcast::study
