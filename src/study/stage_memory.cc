#include "src/study/stage_memory.h"

#include <utility>

#include "fmt/format.h"
#include "src/forecast/forecast.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/warnings.h"
#include "src/scenario/load.h"
#include "src/study/fitting_settings.h"

namespace stepcast::study {
namespace {

std::string Messages(const Diagnostics& faults) {
  std::string text;
  for (const Diagnostic& fault : faults) {
    if (!text.empty()) text += "; ";
    text += fault.message;
  }
  return text;
}

report::StageMemory OtherStage(const MemoryQuestion& question, const scenario::Scenario& own,
                               int stage, scenario::InputCache& cache) {
  report::StageMemory memory;
  memory.stage = stage;
  std::vector<std::string> set = question.set;
  set.push_back(fmt::format("data_parallel.zero_stage={}", stage));
  const auto scenario = scenario::Load(question.scenario, set, cache);
  if (!scenario) {
    // The textbook formula ignores limits of the framework.
    scenario::Scenario textbook = own;
    textbook.plan.data_parallel.zero_stage = stage;
    memory.formula = forecast::MemoryFormula(textbook);
    memory.reason = Messages(scenario.error());
    return memory;
  }
  memory.formula = forecast::MemoryFormula(*scenario);
  const auto run = forecast::FiguresOf(*scenario);
  if (run) {
    memory.simulated = run->memory;
  } else {
    memory.reason = Messages(run.error());
  }
  if (run && question.max_micro_batch) {
    if (auto limit = forecast::FindMicroBatchLimit(*scenario)) memory.limit = *std::move(limit);
  }
  return memory;
}

Diagnostic GivenActivations(const MemoryQuestion& question) {
  return {
      "command.no-micro-batch",
      {"command line", 0, 0},
      fmt::format("the model of {} is a layer list, whose activation sizes are valid for only one "
                  "micro-batch size",
                  Quoted(question.scenario)),
      "omit --max-micro-batch, or use a model file with the dimensions of the model"};
}

}  // namespace

Result<StagesMemory> MemoryOfStages(const MemoryQuestion& question) {
  scenario::InputCache cache;
  auto scenario = scenario::Load(question.scenario, question.set, cache);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  if (question.max_micro_batch && scenario->model->is_layer_list()) {
    return tl::unexpected(Diagnostics{GivenActivations(question)});
  }
  auto own = forecast::FiguresOf(*scenario);
  if (!own) return tl::unexpected(std::move(own.error()));
  const forecast::MemoryForecast& own_memory = own->memory;
  forecast::WarnOfOptimizerStates(own_memory, *scenario);

  report::MemoryReport report;
  forecast::MemoryForecast judged = forecast::LeastProbable(*own);
  report.own_stage = scenario->plan.data_parallel.zero_stage;
  for (int stage = 0; stage <= 3; ++stage) {
    if (stage == report.own_stage) {
      report.stages.push_back({stage, forecast::MemoryFormula(*scenario), own_memory, ""});
      if (!question.max_micro_batch) continue;
      auto limit = forecast::FindMicroBatchLimit(*scenario);
      if (!limit) return tl::unexpected(std::move(limit.error()));
      judged = limit->memory;
      report.stages.back().limit = *std::move(limit);
    } else {
      report.stages.push_back(OtherStage(question, *scenario, stage, cache));
    }
  }
  StagesMemory memory{*std::move(scenario), std::move(report), std::move(judged)};
  if (!memory.own.fits) {
    memory.fitting = SettingsThatFit(question.scenario, question.set, cache);
  }
  return memory;
}

}  // namespace stepcast::study
