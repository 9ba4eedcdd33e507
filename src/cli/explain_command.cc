#include "src/cli/explain_command.h"

#include "src/cli/fit_answer.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/forecast/communication_warnings.h"
#include "src/forecast/explanation.h"
#include "src/forecast/optimizer_states_warning.h"
#include "src/report/explain_report.h"
#include "src/report/text_wrap.h"
#include "src/scenario/load.h"

namespace stepcast::cli {

Outcome Explain(const ExplainOptions& options) {
  const Stopwatch stopwatch;
  scenario::InputCache cache;
  auto scenario = scenario::Load(options.scenario, options.set, cache);
  if (!scenario) return WrongInput(scenario.error());
  const auto explanation = forecast::Explain(*scenario);
  if (!explanation) return WrongInput(explanation.error());
  forecast::WarnOfOptimizerStates(explanation->forecast.memory, *scenario);
  forecast::WarnOfCommunicationSettings(*scenario);
  Outcome outcome;
  outcome.output = options.json ? report::ExplainJson(*scenario, *explanation, stopwatch.Seconds())
                                : report::Wrapped(report::ExplainText(*scenario, *explanation));
  outcome.messages = Warnings(*scenario);
  const forecast::MemoryForecast& memory = forecast::LeastProbable(explanation->forecast);
  AnswerFit(memory.verdict(), memory.fit_probability, options.fit_probability, outcome);
  return outcome;
}

}  // namespace stepcast::cli
