#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/forecast/micro_batch_limit.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// The output of `memory`: for each ZeRO stage, the textbook formula beside the simulated peak.
namespace stepcast::report {

struct StageMemory {
  int stage = 0;
  forecast::BytesByCategory formula{};
  // None where the framework does not have this stage, or the combination is illegal.
  std::optional<forecast::MemoryForecast> simulated;
  std::string reason;  // why there is none
  // The largest micro-batch that fits, where that was asked for and the stage can be simulated.
  std::optional<forecast::MicroBatchLimit> limit{};
};

struct MemoryReport {
  int own_stage = 0;  // the scenario's own; must be among `stages` and simulated
  std::vector<StageMemory> stages;
};

std::string MemoryText(const scenario::Scenario& scenario, const MemoryReport& report);

// The document of `memory --json`, version 1.
std::string MemoryJson(const scenario::Scenario& scenario, const MemoryReport& report,
                       double seconds);

}  // namespace stepcast::report
