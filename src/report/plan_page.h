#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"

namespace stepcast::report {

// A plan that a search has simulated.
struct SearchedPlan {
  std::string name;  // what tells it from the others: "data_parallel.zero_stage = 3, ..."
  std::int64_t gpus = 0;
  Time step_time{};
  Bytes peak{};
  Bytes needed{};  // reserved by the allocator and outside of it
  double tokens_per_second_per_gpu = 0;
  bool fits = true;
  std::int64_t tokens = 0;  // of a step; 0: the same for all
  bool on_front = false;    // nothing is at least as good in step time, memory and GPUs
};

// What a search found, as its page needs it.
struct SearchView {
  std::string title;                                         // the scenario's name
  std::vector<std::pair<std::string, std::string>> about{};  // "model" and what it is, and so on
  std::string goal;                                          // "the shortest step"
  std::int64_t space = 0;                                    // how many plans there are
  std::vector<SearchedPlan> plans{};
  std::vector<std::size_t> best{};  // of `plans`, best first; empty: none fits
  // What became of the plans, and of how many; together they are all of the space.
  std::vector<std::pair<std::string, std::int64_t>> became{};
  // What would change the best plan: a heading and rows of what changes and the step time then.
  std::vector<std::pair<std::string, Time>> sensitivity{};
};

// A search for the best plan as one HTML page: the best, step time against memory of all that were
// simulated, what became of the others, and what would change the best.
std::string PlanPage(const SearchView& view);

}  // namespace stepcast::report
