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

// A search for plans around a scenario. Call Prepare first. Then any number of threads may call
// Work, and one thread may call Run.
class PlanSearch {
 public:
  explicit PlanSearch(PlanQuestion question);
  ~PlanSearch();

  // Reads the input that all plans share. Fails only on mistakes that every plan in the space would
  // have.
  Result<void> Prepare();
  // Returns the inputs of bounds and forecasts, apart from the settings of plans. They include
  // neither the goal nor the set of plans. `code`: a digest of the program.
  std::vector<planner::StoreFact> Facts(const std::string& code) const;
  // Returns a text that must be equal on all ranks, because ranks refer to plans by number.
  std::string Fingerprint(const std::string& code) const;
  // Processes one work item of the pool and returns its result.
  std::string Work(const std::string& item) const;

  // Runs the search. The answer refers to this object. `store` may be null.
  Answer<report::PlanReport> Run(planner::WorkerPool& pool, planner::ResultStore* store);

  // The flag that stops the search. A request to this flag, from any thread or signal handler, ends
  // Run with the results so far.
  StopFlag& stop();
  // The number of plans; plans are numbered from 0.
  std::int64_t plans() const;
  // The scenario around which plans are searched.
  const scenario::Scenario& base() const;
  // Returns the resolved scenario of a plan.
  Result<scenario::Scenario> ScenarioOf(std::int64_t plan);
  // Returns the plan's settings that differ from their defaults, as text.
  std::string NameOf(std::int64_t plan) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepcast::study
