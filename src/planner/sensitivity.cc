#include "src/planner/sensitivity.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/forecast/forecast.h"

namespace stepcast::planner {
namespace {

std::string ValueOf(const PlanSpace& space, std::int64_t plan, const std::string& key) {
  if (const LayoutKey* of_layout = FindLayoutKey(key)) {
    return of_layout->Text(space.PartOf(plan).layout);
  }
  for (const auto& [name, value] : space.Settings(plan)) {
    if (name == key) return value;
  }
  return "";
}

}  // namespace

tl::expected<Sensitivity, SensitivityFault> SensitivityOf(
    const PlanSpace& space, Answers& answers, const Goal& goal, const SearchOptions& options,
    const SearchResult& result, const std::function<Screened(std::int64_t)>& screen,
    const std::function<Result<scenario::Scenario>(std::int64_t)>& load) {
  STEPCAST_CHECK(!result.best.empty(), "there is a winner");
  const auto wrong = [](const Diagnostics& faults) {
    return tl::unexpected(SensitivityFault{faults, ""});
  };
  const auto failed = [](const std::string& failure) {
    return tl::unexpected(SensitivityFault{{}, failure});
  };
  const std::int64_t winner = result.best.front();
  Sensitivity sensitivity;
  const auto scenario = load(winner);
  if (!scenario) return wrong(scenario.error());
  const auto classes = forecast::PricedClassesOf(*scenario);
  if (!classes) return wrong(classes.error());
  const auto run = forecast::SimulateAt(*scenario, *classes, forecast::Detail::kTimes);
  if (!run) return wrong(run.error());
  auto faster = forecast::WhatIfFaster(*scenario, *classes, *run, 1 + kResourceIncrease);
  if (!faster) return wrong(faster.error());
  sensitivity.faster = std::move(*faster);
  std::stable_sort(sensitivity.faster.begin(), sensitivity.faster.end(),
                   [](const forecast::WhatIf& a, const forecast::WhatIf& b) {
                     return a.step_time < b.step_time;
                   });

  Goal roomier = goal;
  roomier.spare_memory = kResourceIncrease;
  SearchOptions single = options;
  single.best = 1;
  single.pareto = false;
  single.progress = nullptr;
  const auto with_more = Search(answers, roomier, single, &result);
  if (!with_more) return failed(with_more.error());
  if (!with_more->best.empty() && with_more->best.front() != winner) {
    sensitivity.with_more_memory = with_more->best.front();
    sensitivity.more_memory_outcome = with_more->outcomes.at(with_more->best.front());
  }

  std::vector<std::int64_t> unknown;  // neighbours that were not simulated
  std::vector<std::size_t> position;  // theirs in sensitivity.neighbours
  for (const PlanSpace::Neighbour& neighbour : space.NeighboursOf(winner)) {
    NeighbouringSetting& setting = sensitivity.neighbours.emplace_back();
    setting.key = neighbour.key;
    setting.from = ValueOf(space, winner, neighbour.key);
    setting.to = neighbour.value;
    const auto known = result.outcomes.find(neighbour.plan);
    if (known != result.outcomes.end()) {
      setting.outcome = known->second;
      setting.illegal_message = setting.outcome.illegal_message;
    } else if (const Screened screened = screen(neighbour.plan); !screened.illegal_code.empty()) {
      setting.illegal_message = screened.illegal_message;
    } else {
      unknown.push_back(neighbour.plan);
      position.push_back(sensitivity.neighbours.size() - 1);
    }
  }
  const auto outcomes = answers.Simulate(unknown);
  if (!outcomes) return failed(outcomes.error());
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    NeighbouringSetting& setting = sensitivity.neighbours[position[i]];
    setting.outcome = (*outcomes)[i];
    setting.illegal_message = setting.outcome.illegal_message;
  }
  return sensitivity;
}

}  // namespace stepcast::planner
