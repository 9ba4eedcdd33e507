#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/base/stop.h"
#include "src/forecast/forecast.h"
#include "src/planner/result_store.h"
#include "src/planner/worker_pool.h"
#include "src/report/plan_report.h"
#include "src/study/failure.h"
#include "src/study/plan_question.h"

namespace stepcast::study {

// A search for plans around a scenario. Call Prepare first. Then any number of threads may call
// Work, and one thread may call Run.
class PlanSearch {
 public:
  static std::unique_ptr<PlanSearch> Of(PlanQuestion question);
  virtual ~PlanSearch() = default;

  // Reads the input that all plans share. Fails only on mistakes that every plan in the space would
  // have.
  virtual Result<void> Prepare() = 0;
  // Returns the inputs on which bounds and forecasts depend, except the settings of plans. The goal
  // and the set of plans are not included. `code` is a digest of the program.
  virtual std::vector<planner::StoreFact> Facts(const std::string& code) const = 0;
  // Returns a text that must be equal on all ranks, because ranks refer to plans by index.
  virtual std::string Fingerprint(const std::string& code) const = 0;
  // Processes one work item of the pool and returns its result.
  virtual std::string Work(const std::string& item) const = 0;

  // Runs the search. The answer refers to this object, which must outlive it. `store` may be null.
  virtual Answer<report::PlanReport> Run(planner::WorkerPool& pool,
                                         planner::ResultStore* store) = 0;

  // Returns the flag that stops the search. If the flag is set, from any thread or signal handler,
  // Run ends with the results so far.
  virtual StopFlag& stop() = 0;
  // Returns the number of plans. The index of the first plan is 0.
  virtual std::int64_t plans() const = 0;
  // Returns the scenario around which plans are searched.
  virtual const scenario::Scenario& base() const = 0;
  // Returns the resolved scenario of a plan.
  virtual Result<scenario::Scenario> ScenarioOf(std::int64_t plan) = 0;
  // Returns the plan's settings that differ from their defaults, as text.
  virtual std::string NameOf(std::int64_t plan) const = 0;
};

}  // namespace stepcast::study
