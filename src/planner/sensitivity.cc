#include "src/planner/sensitivity.h"

#include <algorithm>
#include <utility>

#include "oneapi/tbb/parallel_for.h"
#include "oneapi/tbb/task_arena.h"
#include "src/base/check.h"
#include "src/forecast/forecast.h"

namespace stepcast::planner {
namespace {

std::string ValueOf(const PlanSpace& space, std::int64_t plan, const std::string& key) {
  for (const auto& [name, value] : space.Settings(plan)) {
    if (name == key) return value;
  }
  return "";
}

}  // namespace

Result<Sensitivity> SensitivityOf(
    const PlanSpace& space, const SearchProblem& problem, const Goal& goal,
    const SearchOptions& options, const SearchResult& result,
    const std::function<Result<scenario::Scenario>(std::int64_t)>& load) {
  STEPCAST_CHECK(!result.best.empty(), "there is a winner");
  const std::int64_t winner = result.best.front();
  Sensitivity sensitivity;
  const auto scenario = load(winner);
  if (!scenario) return tl::unexpected(scenario.error());
  const auto run = forecast::Simulate(*scenario);
  if (!run) return tl::unexpected(run.error());
  auto faster = forecast::WhatIfFaster(*scenario, *run, 1 + kMore);
  if (!faster) return tl::unexpected(faster.error());
  sensitivity.faster = std::move(*faster);
  std::stable_sort(sensitivity.faster.begin(), sensitivity.faster.end(),
                   [](const forecast::WhatIf& a, const forecast::WhatIf& b) {
                     return a.step_time < b.step_time;
                   });

  Goal roomier = goal;
  roomier.spare_memory = kMore;
  SearchOptions single = options;
  single.best = 1;
  single.pareto = false;
  single.progress = nullptr;
  const SearchResult with_more = Search(problem, roomier, single, &result);
  if (!with_more.best.empty() && with_more.best.front() != winner) {
    sensitivity.with_more_memory = with_more.best.front();
    sensitivity.more_memory_outcome = with_more.outcomes.at(with_more.best.front());
  }

  const auto neighbours = space.NeighboursOf(winner);
  sensitivity.notches.resize(neighbours.size());
  oneapi::tbb::task_arena arena(options.threads > 0 ? options.threads
                                                    : oneapi::tbb::task_arena::automatic);
  arena.execute([&] {
    oneapi::tbb::parallel_for(std::size_t{0}, neighbours.size(), [&](std::size_t i) {
      const PlanSpace::Neighbour& neighbour = neighbours[i];
      Notch& notch = sensitivity.notches[i];
      notch.key = neighbour.key;
      notch.from = ValueOf(space, winner, neighbour.key);
      notch.to = neighbour.value;
      const auto known = result.outcomes.find(neighbour.plan);
      if (known != result.outcomes.end()) {
        notch.outcome = known->second;
      } else if (const Screened screened = problem.screen(neighbour.plan);
                 !screened.illegal_code.empty()) {
        notch.illegal_message = screened.illegal_message;
        return;
      } else {
        notch.outcome = problem.simulate(neighbour.plan);
      }
      notch.illegal_message = notch.outcome.illegal_message;
    });
  });
  return sensitivity;
}

}  // namespace stepcast::planner
