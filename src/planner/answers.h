#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/planner/result_store.h"
#include "src/planner/search_problem.h"
#include "src/planner/worker_pool.h"
#include "tl/expected.hpp"

namespace stepcast::planner {

// Evaluates combinations of settings: those that a store holds are taken from there, the others are
// computed and stored.

// Keys of the scenario and the values they are set to.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Settings as one text, a line for each ("training.micro_batch_size=2"), and back: what work items
// and a store's keys are. Equal settings in equal order give equal text.
std::string ToText(const Settings& settings);
Settings ToSettings(const std::string& text);

struct EvaluationList {
  std::int64_t count = 0;
  std::function<std::string(std::int64_t index)> item;  // called from several threads at once
  // The store's key of an item's result; null: the item.
  std::function<std::string(std::int64_t index)> key{};
  // For each item once, in any order, never from two threads at once. False: enough.
  std::function<bool(std::int64_t index, const std::string& result)> done;
  // Called when the results from the store are done, with their number; may be empty.
  std::function<void(std::int64_t known)> begun;
};

// `store` may be null. Returns when all are done (and stored), or `done` has returned false. The
// error is a sentence: the store cannot be written, ranks cannot be reached.
tl::expected<void, std::string> Evaluate(const EvaluationList& list, WorkerPool& pool,
                                         ResultStore* store);

// Bounds and forecasts of plans, many at a time: computed on a worker pool, and the expensive ones
// kept in a store.

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
