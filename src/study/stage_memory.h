#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/forecast/values.h"
#include "src/report/answers.h"
#include "src/scenario/input_contents.h"
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

// Finds settings that make a step fit in memory.

// The time limit of the search.
inline constexpr std::chrono::seconds kFittingTime{10};

// Tries settings that save memory: first single settings, then combinations of two and of three
// settings, starting with the cheapest combinations that probably fit. Returns at most five
// settings or combinations with which the scenario fits, fastest first. The global batch does not
// change. `scenario` and `set` are the arguments of scenario::Load.
report::Fitting SettingsThatFit(const std::string& scenario, const std::vector<std::string>& set,
                                scenario::InputCache& cache,
                                std::chrono::milliseconds time = kFittingTime);

}  // namespace stepcast::study
