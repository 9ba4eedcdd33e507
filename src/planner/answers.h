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

// Evaluates combinations of settings. Results in a store are reused; all other results are computed
// and stored.

// Scenario keys with the values to set.
using Settings = std::vector<std::pair<std::string, std::string>>;

// ToText converts settings to text, one per line ("training.micro_batch_size=2"). ToSettings
// converts the text back. Work items and store keys have this format. Equal settings in the same
// order have the same text.
std::string ToText(const Settings& settings);
Settings ToSettings(const std::string& text);

struct EvaluationList {
  std::int64_t count = 0;
  std::function<std::string(std::int64_t index)> item;  // called from several threads at once
  // Returns the store's key for an item's result. Null: the item itself is the key.
  std::function<std::string(std::int64_t index)> key{};
  // Receives an item's result: once per item, in any order, never from two threads at once. Returns
  // false to stop.
  std::function<bool(std::int64_t index, const std::string& result)> done;
  // Receives the number of stored results, after `done` has received these results. May be empty.
  std::function<void(std::int64_t known)> begun;
};

// Evaluates all items. `store` may be null. Returns when all results are stored, or when `done` has
// returned false. An error is a sentence: the store cannot be written, or ranks cannot be reached.
tl::expected<void, std::string> Evaluate(const EvaluationList& list, WorkerPool& pool,
                                         ResultStore* store);

// Computes bounds and forecasts of many plans on a worker pool. A store caches expensive results.

// Returns the function that the worker pool of an Answers object must run. `problem` must outlive
// this function.
Work WorkOf(const SearchProblem& problem);

class Answers {
 public:
  // The pool must run the result of WorkOf(problem). `store` may be null. Otherwise, it has
  // forecasts, and bounds from programs, under `key`. These results may depend only on `key` and
  // the store's facts. All arguments must outlive the object. An error of any function is a
  // sentence: the store cannot be written, or ranks cannot be reached.
  Answers(const SearchProblem& problem, WorkerPool& pool, ResultStore* store = nullptr,
          std::function<std::string(std::int64_t plan)> key = {});

  std::int64_t plans() const { return problem_.plans; }
  const SearchProblem& problem() const { return problem_; }
  // Returns whether work was stopped early (base/stop.h). After an early stop, only results that
  // Screen passed to `done` may be used.
  bool stopped() const { return stopped_; }
  // Screens all families. Calls `done` once for each family, with its index, in any order, never
  // from two threads at once. If `done` returns false, the remaining families are not screened.
  tl::expected<void, std::string> Screen(
      const std::function<bool(std::int64_t family, Screened)>& done);
  // Screens all plans of these families.
  tl::expected<std::vector<std::vector<Screened>>, std::string> ScreenMembers(
      const std::vector<std::int64_t>& families);
  // Returns the sharper bounds of plans, in the order of `plans`.
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
