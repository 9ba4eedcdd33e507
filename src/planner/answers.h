#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/planner/result_store.h"
#include "src/planner/search_problem.h"
#include "src/planner/workforce.h"
#include "tl/expected.hpp"

// What a search asks of its plans, many at a time: answered by all threads of one process or of
// several, and kept in a store where that was dear.
namespace stepcast::planner {

// The work whose items are such questions. `problem` must outlive it.
Work WorkOf(const SearchProblem& problem);

class Answers {
 public:
  // The workforce does WorkOf a problem of so many plans. `store` may be null; it knows bounds of
  // programs and forecasts by `key`, which must say all that they depend on beside the store's
  // facts. Both must outlive this. Errors of all that is asked: a sentence, why the store cannot be
  // written or ranks cannot be reached.
  Answers(std::int64_t plans, Workforce& workforce, ResultStore* store = nullptr,
          std::function<std::string(std::int64_t plan)> key = {});

  std::int64_t plans() const { return plans_; }
  // All plans. `done` is called once for each, in any order, never from two threads at once.
  tl::expected<void, std::string> Screen(
      const std::function<void(std::int64_t plan, Screened)>& done);
  // In the order of `plans`.
  tl::expected<std::vector<Screened>, std::string> Sharpen(const std::vector<std::int64_t>& plans);
  tl::expected<std::vector<Outcome>, std::string> Simulate(const std::vector<std::int64_t>& plans);

 private:
  template <typename Answer>
  tl::expected<std::vector<Answer>, std::string> Ask(const std::vector<std::int64_t>& plans);

  const std::int64_t plans_;
  Workforce& workforce_;
  ResultStore* const store_;
  const std::function<std::string(std::int64_t)> key_;
};

}  // namespace stepcast::planner
