#include "src/cli/hardware_commands.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/cli/distributed_session.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/forecast/forecast.h"
#include "src/messaging/launch.h"
#include "src/report/hardware_reports.h"
#include "src/report/table.h"
#include "src/runtime/mpi_session.h"
#include "src/runtime/watch.h"
#include "src/validate/comparison.h"

namespace stepcast::cli {
namespace {

using runtime::Failure;

// Runs this rank's work after all ranks have agreed on options and input files.
Outcome TakePart(const WorkCommand& command, DistributedSession& session) {
  const auto fail = [&](const Failure& failure) { session.watch().Fail(session.rank(), failure); };
  const int threads = command.threads > 0
                          ? command.threads
                          : planner::ThreadsOfRank(session.job().place().local_ranks);
  const auto mailbox = runtime::OpenMpiMailbox();
  if (!mailbox) fail(mailbox.error());
  try {
    if (session.rank() == 0) {
      const auto pool = planner::MakeMpiPool(**mailbox, command.work, threads);
      return command.run(*pool);
    }
    const auto served = planner::RunWorker(**mailbox, command.work, threads);
    if (!served) fail(served.error());
  } catch (const std::bad_alloc&) {
    fail({"out of memory", true});
  }
  return {};
}

Outcome RunOnRank(const WorkCommand& command, DistributedSession& session) {
  // Forecasts have no expected duration, so the watch must not report a hang in this stage.
  session.watch().SetStage(session.rank(), runtime::Stage::kForecasting);
  std::optional<Outcome> end = command.prepare();
  if (end = session.Agree(end); end) return std::move(*end);
  const std::string other = session.FirstThatDiffers(command.fingerprint());
  if (!other.empty()) {
    end = WrongInput(
        "launch.different-work", command.scenario,
        fmt::format("{} and rank 0 have different input files, options or builds of stepcast",
                    other),
        "use the same program, options and files on all ranks");
  }
  if (end = session.Agree(end); end) return std::move(*end);
  return TakePart(command, session);
}

}  // namespace

Outcome RunDistributed(const WorkCommand& command) {
  const auto launch = messaging::FindLaunch([](const char* name) { return std::getenv(name); });
  // This work needs no launcher, so torchrun's variables are ignored.
  const bool ranks = launch && launch->launcher == messaging::Launcher::kMpi && launch->ranks > 1;
  if (!ranks) return RunOnThreads(command);
  return RunInSession(*launch, {},
                      [&](DistributedSession& session) { return RunOnRank(command, session); });
}

Outcome Execute(const ExecuteOptions& options) {
  AnswerPrinter printer;
  HardwareReport report;
  TraceFile trace;
  TraceFolder traces;
  report.prepare = [&](const scenario::Scenario&) {
    auto failed = printer.Create(options.forms);
    if (!failed) failed = trace.Create(options.trace);
    return failed ? failed : traces.Create(options.trace_dir);
  };
  report.write = [&](const scenario::Scenario& scenario, const validate::Execution& execution) {
    const report::TraceSubject subject{scenario.name, execution.critical_rank,
                                       static_cast<int>(execution.ranks.size())};
    const auto processes = report::MeasuredProcesses(execution);
    if (auto failed = trace.Write(processes, subject)) return *failed;
    if (auto failed = traces.Write(processes, scenario.name, subject.ranks)) return *failed;
    return printer.Print(
        {.text = [&] { return report::ExecutionText(scenario, execution); },
         .json = [&] { return report::ExecutionJson(scenario, execution, printer.Seconds()); }},
        Warnings(scenario));
  };
  return RunOnHardware(options.hardware, report);
}

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
  return tl::unexpected(
      Diagnostics{{.code = "command.bad-quantity",
                   .location = {"--within", 0, 0},
                   .message = fmt::format(
                       "the value of --within must be a percentage of the measured step time: {}",
                       Quoted(text)),
                   .hint = "write for example '10%'"}});
}

// A sentence if the forecast and the measurement are for different kinds of devices; nothing if
// they may be equal.
std::optional<std::string> OtherDevice(const scenario::Scenario& scenario,
                                       const validate::Execution& execution) {
  constexpr std::string_view kHost = "host-cpu";
  if (execution.backend != "host" || !scenario.gpu || scenario.gpu->name == kHost) {
    return std::nullopt;
  }
  return fmt::format(
      "the forecast is for {}, but the host backend measured the CPUs of this machine, so the "
      "times cannot be compared",
      scenario.gpu->name);
}

}  // namespace

Outcome Validate(const ValidateOptions& options) {
  HardwareOptions hardware = options.hardware;
  const Result<double> within = Share(options.within);
  if (!within) hardware.faults = within.error();
  std::optional<forecast::Run> forecast;
  HardwareReport report;
  TraceFile trace;
  AnswerPrinter printer;
  report.prepare = [&](const scenario::Scenario& scenario) -> std::optional<Outcome> {
    if (auto failed = trace.Create(options.trace)) return failed;
    if (auto failed = printer.Create(options.forms)) return failed;
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
    Outcome outcome = printer.Print(
        {.text = [&] { return report::ValidationText(scenario, execution, comparison, *within); },
         .json =
             [&] {
               return report::ValidationJson(scenario, execution, comparison, *within,
                                             printer.Seconds());
             },
         .page =
             [&] {
               return report::ValidationPage(scenario, *forecast, execution, comparison, *within);
             }},
        Warnings(scenario));
    const bool right = std::abs(comparison.step_error()) <= *within;
    if (outcome.status == kDone && !right) outcome.status = kAnswerIsNo;
    return outcome;
  };
  return RunOnHardware(hardware, report);
}

}  // namespace stepcast::cli
