#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
  Bytes reserved{};  // by the allocator
  Bytes needed{};    // that, and what is outside of it
  Bytes capacity{};  // of a device
  double tokens_per_second_per_gpu = 0;
  bool eligible = true;     // fits with what must stay free and in time: it may be the best
  std::int64_t tokens = 0;  // of a step; 0: the same for all
  bool on_front = false;    // nothing is at least as good in step time, memory and GPUs
};

// What makes one of the best plans: its settings, in order, and the command that forecasts it.
struct RankedPlan {
  std::vector<std::pair<std::string, std::string>> settings;
  std::string command;
};

// A search's result, as its page needs it.
struct SearchView {
  std::string title;                                         // the scenario's name
  std::vector<std::pair<std::string, std::string>> about{};  // "model" and what it is, and so on
  std::string goal;                                          // "the shortest step"
  std::string held{};                                        // as HeldText says; empty: nothing
  std::int64_t space = 0;                                    // how many plans there are
  std::int64_t open = 0;  // of them, those that may still be better than the best
  std::optional<Time> own{};  // the step of the scenario's own plan
  std::string gain{};         // of the best over it: "the best is 12.3 % faster than yours"
  std::vector<SearchedPlan> plans{};
  std::vector<std::size_t> best{};   // of `plans`, best first; empty: none fits
  std::vector<RankedPlan> ranked{};  // what makes each of `best`
  std::string execution{};  // the command that executes the best plan; empty: there is none
  // How many plans have each verdict; together they are all of the space.
  std::vector<std::pair<std::string, std::int64_t>> became{};
  // The best plan's sensitivity: a heading and rows of changes and the step time then.
  std::vector<std::pair<std::string, Time>> sensitivity{};
};

// A search for the best plan as one HTML page: the best, step time against memory of all that were
// simulated, the verdicts on the others, and the best plan's sensitivity.
std::string PlanPage(const SearchView& view);

}  // namespace stepcast::report
