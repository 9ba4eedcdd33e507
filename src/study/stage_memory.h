#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/report/answers.h"
#include "src/scenario/scenario.h"

// The memory of a scenario at each ZeRO stage.
namespace stepcast::study {

struct MemoryQuestion {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"
  bool max_micro_batch = false;  // also the largest micro-batch that fits, at each stage
};

struct StagesMemory {
  scenario::Scenario scenario;
  report::MemoryReport report;
  // Of the scenario's own stage; with `max_micro_batch`, of the largest that fits there, or of one
  // sequence where none does. Decides whether the answer is that it fits.
  forecast::MemoryForecast own;
};

// Errors also: command.no-micro-batch, for layer lists with `max_micro_batch`.
Result<StagesMemory> MemoryOfStages(const MemoryQuestion& question);

}  // namespace stepcast::study
