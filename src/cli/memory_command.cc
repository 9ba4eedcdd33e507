#include "src/cli/memory_command.h"

#include "src/cli/fit_answer.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/report/memory_report.h"
#include "src/report/text_wrap.h"

namespace stepcast::cli {

Outcome Memory(const MemoryOptions& options) {
  const Stopwatch stopwatch;
  const auto memory = study::MemoryOfStages(options);
  if (!memory) return WrongInput(memory.error());
  Outcome outcome;
  outcome.output = options.json
                       ? report::MemoryJson(memory->scenario, memory->report, stopwatch.Seconds())
                       : report::Wrapped(report::MemoryText(memory->scenario, memory->report));
  outcome.messages = Warnings(memory->scenario);
  AnswerFit(memory->own.verdict(), memory->own.fit_probability, options.fit_probability, outcome);
  return outcome;
}

}  // namespace stepcast::cli
