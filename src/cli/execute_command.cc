#include "src/cli/execute_command.h"

#include "src/cli/hardware_run.h"
#include "src/cli/stopwatch.h"
#include "src/cli/trace_file.h"
#include "src/cli/trace_folder.h"
#include "src/cli/warnings.h"
#include "src/report/execution_report.h"
#include "src/report/execution_trace.h"
#include "src/report/text_wrap.h"

namespace stepcast::cli {

Outcome Execute(const ExecuteOptions& options) {
  const Stopwatch stopwatch;
  HardwareReport report;
  TraceFile trace;
  TraceFolder traces;
  report.prepare = [&](const scenario::Scenario&) {
    auto failed = trace.Create(options.trace);
    return failed ? failed : traces.Create(options.trace_dir);
  };
  report.write = [&](const scenario::Scenario& scenario, const validate::Execution& execution) {
    const report::TraceSubject subject{scenario.name, execution.critical_rank,
                                       static_cast<int>(execution.ranks.size())};
    const auto processes = report::MeasuredProcesses(execution);
    if (auto failed = trace.Write(processes, subject)) return *failed;
    if (auto failed = traces.Write(processes, scenario.name, subject.ranks)) return *failed;
    Outcome outcome;
    outcome.output = options.json ? report::ExecutionJson(scenario, execution, stopwatch.Seconds())
                                  : report::Wrapped(report::ExecutionText(scenario, execution));
    outcome.messages = Warnings(scenario);
    return outcome;
  };
  return RunOnHardware(options.hardware, report);
}

}  // namespace stepcast::cli
