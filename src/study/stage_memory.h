#pragma once

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/report/memory_report.h"
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
  // The scenario's own stage fits; with `max_micro_batch`, some micro-batch does there.
  bool fits = true;
};

// Errors also: command.no-micro-batch, for layer lists with `max_micro_batch`.
Result<StagesMemory> MemoryOfStages(const MemoryQuestion& question);

}  // namespace stepcast::study
