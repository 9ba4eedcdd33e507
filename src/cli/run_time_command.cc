#include <string>

#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/foreign_scenario.h"
#include "src/cli/option_parts.h"
#include "src/cli/outcome.h"
#include "src/cli/outputs.h"
#include "src/cli/progress.h"
#include "src/report/run_time_report.h"
#include "src/report/table.h"
#include "src/study/run_time_study.h"

namespace stepcast::cli {
namespace {

struct RunTimeOptions : study::RunTimeQuestion {
  ScenarioFiles files;
  bool json = false;
  std::string report;  // HTML page to write; empty: none
};

Outcome RunTime(const RunTimeOptions& options) {
  const Stopwatch stopwatch;
  OptionalOutput page;
  if (auto failed = page.Create(options.report)) return *failed;
  const auto answer = study::AnswerRunTime(options);
  if (!answer) return WrongInput(answer.error());
  if (auto failed =
          page.Write([&] { return report::RunTimePage(answer->scenario, answer->run); })) {
    return *failed;
  }
  Outcome outcome;
  outcome.output = options.json
                       ? report::RunTimeJson(answer->scenario, answer->run, stopwatch.Seconds())
                       : report::Wrapped(report::RunTimeText(answer->scenario, answer->run));
  outcome.messages = Warnings(answer->scenario);
  return outcome;
}

}  // namespace

Command RunTimeCommand() {
  const auto describe = [](Question& question, RunTimeOptions& options) {
    AddScenarioFiles(question, options.files, options.set);
    options.Describe(question);
    question.Flag("--json", &options.json, "Print one JSON document");
    AddReport(question, options.report);
  };
  return MakeCommand<RunTimeOptions>("run-time", describe, [](RunTimeOptions& options) {
    const WorkNotice notice("simulating a step of " + Named(options.files));
    return RunOn(options.files, options.scenario, options.set, [&] { return RunTime(options); });
  });
}

}  // namespace stepcast::cli
