#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/planner/evaluations.h"
#include "src/planner/result_store.h"
#include "src/planner/search_problem.h"
#include "src/planner/worker_pool.h"
#include "tl/expected.hpp"

// Bounds and forecasts of plans, many at a time: computed on a worker pool, and the expensive ones
// kept in a store.
namespace stepcast::planner {

// The work whose items are these queries. `problem` must outlive it.
Work WorkOf(const SearchProblem& problem);

class Answers {
 public:
  // The pool does WorkOf a problem of these plans and families. `store` may be null; it holds
  // bounds of programs and forecasts by `key`, which must contain all that they depend on beside
  // the store's facts. All must outlive this. Errors of all functions: a sentence, why the store
  // cannot be written or ranks cannot be reached.
  Answers(const SearchProblem& problem, WorkerPool& pool, ResultStore* store = nullptr,
          std::function<std::string(std::int64_t plan)> key = {});

  std::int64_t plans() const { return problem_.plans; }
  const SearchProblem& problem() const { return problem_; }
  // Whether work was stopped before its end (base/stop.h): what functions returned then is not
  // complete, and nothing may be taken from it. `Screen` has called `done` for what it has.
  bool stopped() const { return stopped_; }
  // All families. `done` is called once for each, by its place, in any order, never from two
  // threads at once. False of it: enough, and the others are not screened.
  tl::expected<void, std::string> Screen(
      const std::function<bool(std::int64_t family, Screened)>& done);
  // All plans of each of these families.
  tl::expected<std::vector<std::vector<Screened>>, std::string> ScreenMembers(
      const std::vector<std::int64_t>& families);
  // In the order of `plans`.
  tl::expected<std::vector<Screened>, std::string> Sharpen(const std::vector<std::int64_t>& plans);
  tl::expected<std::vector<Outcome>, std::string> Simulate(const std::vector<std::int64_t>& plans);

 private:
  template <typename Answer>
  tl::expected<std::vector<Answer>, std::string> Ask(const std::vector<std::int64_t>& plans);

  messaging::Attempt<void> RunUntilStopped(const WorkList& list);
  tl::expected<void, std::string> EvaluateUntilStopped(const EvaluationList& list);

  const SearchProblem& problem_;
  WorkerPool& pool_;
  ResultStore* const store_;
  const std::function<std::string(std::int64_t)> key_;
  bool stopped_ = false;
};

}  // namespace stepcast::planner
