#include "src/report/plan_view.h"

#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "src/forecast/what_if.h"
#include "src/report/command_text.h"
#include "src/report/number_text.h"

namespace stepcast::report {

SearchView ViewOf(const PlanReport& report, std::vector<std::pair<std::string, std::string>> about,
                  const std::function<std::string(std::int64_t plan)>& name) {
  const planner::SearchResult& result = *report.result;
  SearchView view;
  view.title = report.name;
  view.about = std::move(about);
  view.goal = TargetText(report.goal, result.UnequalTokens());
  view.held = HeldText(report);
  view.space = report.space;
  view.open = result.open;
  if (report.own) {
    view.own = report.own->outcome.step_time;
    view.gain = GainText(report);
  }
  // Plans that are not safe come behind all others, and beat none of them.
  const bool best_is_safe =
      !result.best.empty() && IsSafe(result.outcomes.at(result.best.front()));
  std::map<std::int64_t, std::size_t> place;  // by plan: in view.plans
  for (const auto& [plan, outcome] : result.outcomes) {
    if (!outcome.illegal_message.empty()) continue;
    place[plan] = view.plans.size();
    const bool on_front =
        std::find(result.pareto.begin(), result.pareto.end(), plan) != result.pareto.end();
    view.plans.push_back({.name = name(plan),
                          .gpus = result.states.FactsOf(plan).gpus,
                          .step_time = outcome.step_time,
                          .peak = outcome.memory,
                          .reserved = outcome.reserved,
                          .needed = outcome.reserved + outcome.outside,
                          .capacity = result.states.FactsOf(plan).capacity,
                          .tokens_per_second_per_gpu = outcome.tokens_per_second_per_gpu,
                          .eligible = Eligible(report.goal, result.states.FactsOf(plan), outcome) &&
                                      (IsSafe(outcome) || !best_is_safe),
                          .tokens = result.UnequalTokens() ? result.states.FactsOf(plan).tokens : 0,
                          .on_front = on_front});
  }
  for (const std::int64_t plan : result.best) {
    if (const auto found = place.find(plan); found != place.end()) {
      view.best.push_back(found->second);
    }
  }
  const std::string file = report.file.empty() ? "FOLDER/plan.json" : report.file;
  for (const PlanRow& row : report.best) {
    view.ranked.push_back(
        {row.settings,
         CommandText(CommandWords{{"stepcast", "simulate", file}, report.set}.With(row.settings))});
  }
  if (report.execution && report.execution->refused.empty()) {
    view.execution = CommandText(ExecutionCommand(report));
  }
  view.became = VerdictCounts(report);
  if (!report.sensitivity) return view;
  for (const forecast::WhatIf& faster : report.sensitivity->faster) {
    view.sensitivity.emplace_back(
        fmt::format("{} {:.0f} % faster", Name(faster.resource), kHundred * planner::kMore),
        faster.step_time);
  }
  for (const planner::NeighbouringSetting& neighbour : report.sensitivity->neighbours) {
    if (!neighbour.illegal_message.empty()) continue;
    view.sensitivity.emplace_back(
        fmt::format("{} = {} instead of {}{}", neighbour.key, neighbour.to, neighbour.from,
                    neighbour.outcome.fits ? "" : ", which does not fit"),
        neighbour.outcome.step_time);
  }
  return view;
}

}  // namespace stepcast::report
