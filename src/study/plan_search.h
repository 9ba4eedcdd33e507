#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/stop.h"
#include "src/forecast/forecast.h"
#include "src/planner/result_store.h"
#include "src/planner/search.h"
#include "src/planner/worker_pool.h"
#include "src/report/plan_report.h"
#include "src/scenario/load.h"
#include "src/scenario/variants.h"
#include "src/study/failure.h"
#include "src/study/plan_question.h"

namespace stepcast::study {

// A search of the plans around a scenario. Prepare comes first; then any number of threads may
// Work, and one may Run.
class PlanSearch {
 public:
  explicit PlanSearch(PlanQuestion question);
  ~PlanSearch();

  // Reads what all plans have in common. Errors: wrong input is what no plan cures, as with sweeps.
  Result<void> Prepare();
  // What bounds and forecasts depend on besides the settings of their plans: neither the goal nor
  // which plans there are. `code`: a digest of the program's.
  std::vector<planner::StoreFact> Facts(const std::string& code) const;
  // What ranks must agree on: they speak of plans by their numbers.
  std::string Fingerprint(const std::string& code) const;
  // What is done with an item of the pool.
  std::string Work(const std::string& item) const;

  // The answer, which points into this. `store` may be null.
  Answer<report::PlanReport> Run(planner::WorkerPool& pool, planner::ResultStore* store);

  // Requested from any thread or signal handler, it ends Run with what was found.
  StopFlag& stop();
  // How many plans there are; they are numbers from 0 on.
  std::int64_t plans() const;
  // The scenario around which plans are searched.
  const scenario::Scenario& base() const;
  // The scenario of a plan, resolved.
  Result<scenario::Scenario> ScenarioOf(std::int64_t plan);
  // The settings that make the plan; those that have their defaults are left out.
  std::string NameOf(std::int64_t plan) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepcast::study
