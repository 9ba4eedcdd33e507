#include "src/cli/compare_command.h"

#include <optional>
#include <string>
#include <utility>

#include "src/base/text_file.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/forecast/communication_warnings.h"
#include "src/forecast/forecast.h"
#include "src/forecast/optimizer_states_warning.h"
#include "src/formats/measured_memory.h"
#include "src/report/compare_report.h"
#include "src/report/measured_memory_report.h"
#include "src/report/text_wrap.h"
#include "src/scenario/load.h"

namespace stepcast::cli {
namespace {

Outcome CompareMemory(const CompareOptions& options) {
  const Stopwatch stopwatch;
  Diagnostics faults;
  scenario::InputCache cache;
  auto scenario = scenario::Load(options.a, options.set, cache);
  if (!scenario) faults = std::move(scenario.error());
  std::optional<formats::MeasuredMemory> measured;
  if (const auto text = ReadAnyFile(options.memory, faults)) {
    auto parsed = formats::ParseMeasuredMemory(*text, options.memory);
    if (parsed) {
      measured = *std::move(parsed);
    } else {
      faults.insert(faults.end(), parsed.error().begin(), parsed.error().end());
    }
  }
  if (!faults.empty() || !measured) return WrongInput(faults);
  const auto forecast = forecast::FiguresOf(*scenario);
  if (!forecast) return WrongInput(forecast.error());
  forecast::WarnOfOptimizerStates(forecast->memory, *scenario);
  forecast::WarnOfCommunicationSettings(*scenario);

  const report::MeasuredComparison comparison{.scenario = scenario->name,
                                              .file = options.memory,
                                              .measured = &*measured,
                                              .forecast = &forecast->memory};
  Outcome outcome;
  outcome.output = options.json ? report::MeasuredMemoryJson(comparison, stopwatch.Seconds())
                                : report::Wrapped(report::MeasuredMemoryText(comparison));
  outcome.messages = Warnings(*scenario);
  for (const std::string& note : measured->notes) outcome.messages += "note: " + note + "\n";
  return outcome;
}

}  // namespace

Outcome Compare(const CompareOptions& options) {
  if (!options.memory.empty()) return CompareMemory(options);
  const Stopwatch stopwatch;
  const auto both = study::Compare(options);
  if (!both) return WrongInput(both.error());

  const report::ComparedPlan a{options.a, &both->a, &both->of_a};
  const report::ComparedPlan b{options.b.empty() ? options.a : options.b, &both->b, &both->of_b};
  Outcome outcome;
  outcome.output = options.json ? report::CompareJson(a, b, stopwatch.Seconds())
                                : report::Wrapped(report::CompareText(a, b));
  outcome.messages = Warnings(both->a);
  if (std::string more = Warnings(both->b); more != outcome.messages) outcome.messages += more;
  return outcome;
}

}  // namespace stepcast::cli
