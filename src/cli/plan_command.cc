#include "src/cli/plan_command.h"

#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "src/cli/code_digest.h"
#include "src/cli/interrupt.h"
#include "src/cli/fit_answer.h"
#include "src/cli/kept_results.h"
#include "src/cli/optional_output.h"
#include "src/cli/page_subject.h"
#include "src/cli/stopwatch.h"
#include "src/cli/warnings.h"
#include "src/report/plan_page.h"
#include "src/report/plan_report.h"
#include "src/report/plan_view.h"
#include "src/report/text_wrap.h"
#include "src/study/plan_port.h"
#include "src/study/plan_search.h"

namespace stepcast::cli {
namespace {

std::optional<Outcome> EmitBest(const PlanOptions& options, study::PlanSearch& search,
                                const report::PlanReport& report, std::string& messages) {
  if (options.emit.folder.empty()) return std::nullopt;
  if (report.best.empty()) {
    messages += "stepcast: no plan fits, so none is written\n";
    return std::nullopt;
  }
  const auto best = search.ScenarioOf(report.best.front().plan);
  if (!best) return WrongInput(best.error());
  return EmitPlan(*best, options.scenario, options.emit, messages);
}

Outcome Report(const PlanOptions& options, study::PlanSearch& search,
               const report::PlanReport& report, OptionalOutput& page) {
  if (auto failed = page.Write([&] {
        const auto name = [&](std::int64_t plan) { return search.NameOf(plan); };
        return report::PlanPage(
            report::ViewOf(report, AskedOf(options.scenario, options.set), name));
      })) {
    return *failed;
  }
  Outcome outcome;
  outcome.output = options.json  ? report::PlanJson(report)
                   : options.csv ? report::PlanCsv(report)
                                 : report::Wrapped(report::PlanText(report));
  // The text has them at its head.
  if (options.json || options.csv) {
    for (const std::string& note : report.notes) outcome.messages += note + "\n";
  }
  outcome.messages += Warnings(search.base());
  if (report.interrupted) {
    outcome.status = kInterrupted;
  } else if (report.best.empty()) {
    outcome.status = kAnswerIsNo;
  } else {
    const planner::Outcome& best = report.best.front().outcome;
    AnswerFit(best.verdict, best.fit_probability, options.fit_probability, outcome);
  }
  if (auto failed = EmitBest(options, search, report, outcome.messages)) return *std::move(failed);
  return outcome;
}

// At rank 0.
Outcome Work(const PlanOptions& options, study::PlanSearch& search,
             const std::optional<study::PlanPort>& port, const Stopwatch& stopwatch,
             planner::WorkerPool& pool) {
  OptionalOutput page;
  if (auto failed = page.Create(options.report)) return *failed;
  if (auto fault = CheckEmit(options.emit)) return *std::move(fault);
  KeptResults kept;
  if (auto failed = kept.Open(
          options.store, [&] { return search.Facts(CodeDigest()); }, "bounds and forecasts")) {
    return *failed;
  }
  const StopAtInterrupt stop_at_interrupt(search.stop());
  const std::int64_t known = kept.store() == nullptr ? 0 : kept.store()->kept().load();
  auto report = search.Run(pool, kept.store());
  if (report && port) {
    auto forecasts = study::ForecastPort(*port);
    if (!forecasts) return WrongInput(forecasts.error());
    report->port = *std::move(forecasts);
  }
  if (report) report->seconds = stopwatch.Seconds();
  Outcome outcome = report ? Report(options, search, *report, page) : OutcomeOf(report.error());
  outcome.messages += outcome.status == kFailed || outcome.status == kInterrupted
                          ? kept.HowToGoOn() : kept.WhatWasKnown(known);
  return outcome;
}

}  // namespace

Outcome Plan(const PlanOptions& options, const RunWork& run_work) {
  const Stopwatch stopwatch;
  study::PlanQuestion question = options;
  constexpr int kMostNamed = 1000;
  const std::string& why = options.why_not;
  int named = 0;
  const auto [end, error] = std::from_chars(why.data(), why.data() + why.size(), named);
  if (error == std::errc() && end == why.data() + why.size() && named >= 1 && named <= kMostNamed) {
    question.why = named;
  } else {
    question.why_layout = why;
  }
  const auto port = std::make_shared<std::optional<study::PlanPort>>();
  if (options.port) {
    auto ported = study::PortPlan({options.scenario, options.set, options.to, options.to_nodes});
    if (!ported) return WrongInput(ported.error());
    *port = *std::move(ported);
    question.set = (*port)->set;
  }
  const auto search = std::make_shared<study::PlanSearch>(std::move(question));
  return run_work({
      .scenario = options.scenario,
      .threads = options.threads,
      .prepare = [search]() -> std::optional<Outcome> {
        const auto ready = search->Prepare();
        return ready ? std::nullopt : std::optional(WrongInput(ready.error()));
      },
      .fingerprint = [search] { return search->Fingerprint(CodeDigest()); },
      .work = [search](const std::string& item) { return search->Work(item); },
      .run =
          [&options, &stopwatch, search, port](planner::WorkerPool& pool) {
            return Work(options, *search, *port, stopwatch, pool);
          },
  });
}

}  // namespace stepcast::cli
