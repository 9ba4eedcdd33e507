#include "src/cli/execute_command.h"

#include <optional>

#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/report/execution_report.h"
#include "src/report/output_file.h"

namespace stepcast::cli {

Outcome Execute(const ExecuteOptions& options) {
  const Stopwatch stopwatch;
  HardwareReport report;
  report.prepare = [](const scenario::Scenario&) -> std::optional<Outcome> { return std::nullopt; };
  report.write = [&](const scenario::Scenario& scenario, const validate::Execution& execution) {
    Outcome outcome;
    outcome.output = options.json ? report::ExecutionJson(scenario, execution, stopwatch.Seconds())
                                  : report::ExecutionText(scenario, execution);
    outcome.messages = Warnings(scenario);
    return outcome;
  };
  return RunOnHardware(options.hardware, report);
}

}  // namespace stepcast::cli
