#include "src/cli/execute_command.h"

#include "src/cli/stopwatch.h"
#include "src/cli/trace_file.h"
#include "src/cli/warnings.h"
#include "src/report/execution_report.h"
#include "src/report/execution_trace.h"

namespace stepcast::cli {

Outcome Execute(const ExecuteOptions& options) {
  const Stopwatch stopwatch;
  HardwareReport report;
  TraceFile trace;
  report.prepare = [&](const scenario::Scenario&) { return trace.Create(options.trace); };
  report.write = [&](const scenario::Scenario& scenario, const validate::Execution& execution) {
    const report::TraceSubject subject{scenario.name, execution.critical_rank,
                                       static_cast<int>(execution.ranks.size())};
    if (auto failed = trace.Write(report::MeasuredProcesses(execution), subject)) return *failed;
    Outcome outcome;
    outcome.output = options.json ? report::ExecutionJson(scenario, execution, stopwatch.Seconds())
                                  : report::ExecutionText(scenario, execution);
    outcome.messages = Warnings(scenario);
    return outcome;
  };
  return RunOnHardware(options.hardware, report);
}

}  // namespace stepcast::cli
