#include "src/cli/memory_command.h"

#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/report/memory_report.h"

namespace stepcast::cli {

Outcome Memory(const MemoryOptions& options) {
  const Stopwatch stopwatch;
  const auto memory = study::MemoryOfStages(options);
  if (!memory) return WrongInput(memory.error());
  Outcome outcome;
  outcome.status = memory->fits ? kDone : kAnswerIsNo;
  outcome.output = options.json
                       ? report::MemoryJson(memory->scenario, memory->report, stopwatch.Seconds())
                       : report::MemoryText(memory->scenario, memory->report);
  outcome.messages = Warnings(memory->scenario);
  return outcome;
}

}  // namespace stepcast::cli
