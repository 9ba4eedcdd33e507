#include "src/cli/validate_command.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/cli/hardware_run.h"
#include "src/cli/optional_output.h"
#include "src/cli/stopwatch.h"
#include "src/cli/trace_file.h"
#include "src/cli/warnings.h"
#include "src/forecast/forecast.h"
#include "src/report/execution_trace.h"
#include "src/report/text_wrap.h"
#include "src/report/validation_page.h"
#include "src/report/validation_report.h"
#include "src/validate/comparison.h"

namespace stepcast::cli {
namespace {

// "10%" or "2.5 %".
Result<double> Share(std::string_view text) {
  double per_cent = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), per_cent, std::chars_format::fixed);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (error == std::errc() && unit == "%" && per_cent >= 0 && std::isfinite(per_cent)) {
    return per_cent / 100;
  }
  return tl::unexpected(Diagnostics{
      {.code = "command.bad-quantity",
       .location = {"--within", 0, 0},
       .message = fmt::format("a share of the measured step time is due: {}", Quoted(text)),
       .hint = "write for example '10%'"}});
}

// What was forecast and what was measured are devices of two kinds; nothing where they may be one.
std::optional<std::string> OtherDevice(const scenario::Scenario& scenario,
                                       const validate::Execution& execution) {
  constexpr std::string_view kHost = "host-cpu";
  if (execution.backend != "host" || !scenario.gpu || scenario.gpu->name == kHost) {
    return std::nullopt;
  }
  return fmt::format(
      "the forecast is for {}, and the host backend measured the CPUs of this machine: their times "
      "do not compare",
      scenario.gpu->name);
}

}  // namespace

Outcome Validate(const ValidateOptions& options) {
  const Stopwatch stopwatch;
  HardwareOptions hardware = options.hardware;
  const Result<double> within = Share(options.within);
  if (!within) hardware.faults = within.error();
  std::optional<forecast::Run> forecast;
  HardwareReport report;
  TraceFile trace;
  OptionalOutput page;
  report.prepare = [&](const scenario::Scenario& scenario) -> std::optional<Outcome> {
    if (auto failed = trace.Create(options.trace)) return failed;
    if (auto failed = page.Create(options.report)) return failed;
    auto run = forecast::Simulate(scenario);
    if (!run) return WrongInput(run.error());
    forecast.emplace(std::move(*run));
    return std::nullopt;
  };
  report.write = [&](const scenario::Scenario& executed, const validate::Execution& execution) {
    scenario::Scenario scenario = executed;
    if (auto warning = OtherDevice(scenario, execution)) {
      scenario.warnings.push_back(*std::move(warning));
    }
    const report::TraceSubject subject{scenario.name, execution.critical_rank,
                                       static_cast<int>(execution.ranks.size())};
    if (auto failed = trace.Write(report::BothProcesses(*forecast, execution), subject)) {
      return *failed;
    }
    const validate::Comparison comparison = validate::Compare(*forecast, execution);
    if (auto failed = page.Write([&] {
          return report::ValidationPage(scenario, *forecast, execution, comparison, *within);
        })) {
      return *failed;
    }
    Outcome outcome;
    outcome.status = std::abs(comparison.step_error()) <= *within ? kDone : kAnswerIsNo;
    outcome.output =
        options.json
            ? report::ValidationJson(scenario, execution, comparison, *within, stopwatch.Seconds())
            : report::Wrapped(report::ValidationText(scenario, execution, comparison, *within));
    outcome.messages = Warnings(scenario);
    return outcome;
  };
  return RunOnHardware(hardware, report);
}

}  // namespace stepcast::cli
