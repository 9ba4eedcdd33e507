#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/scenario/scenario.h"

namespace stepcast::report {

// A plan that a search has simulated.
struct SearchedPlan {
  std::string name;  // settings that differ: "data_parallel.zero_stage = 3, ..."
  std::int64_t gpus = 0;
  Time step_time{};
  Bytes peak{};
  Bytes reserved{};  // by the allocator
  Bytes needed{};    // `reserved` plus memory outside the allocator
  Bytes capacity{};  // of a device
  double tokens_per_second_per_gpu = 0;
  bool eligible = true;     // may be the best: fits with headroom, and in time
  std::int64_t tokens = 0;  // per step; 0: the same for all
  bool on_front = false;    // no plan is at least as good in step time, memory and GPUs
};

// One of the best plans: its settings, in order, and the command that forecasts it.
struct RankedPlan {
  std::vector<std::pair<std::string, std::string>> settings;
  std::string command;
};

// A search's result, for its page.
struct SearchView {
  std::string title;                                         // the scenario's name
  std::vector<std::pair<std::string, std::string>> about{};  // label and text: "model", ...
  std::string goal;                                          // "the shortest step"
  std::string held{};                                        // from HeldText; may be empty
  std::int64_t space = 0;                                    // number of plans
  std::int64_t open = 0;      // of them, those that may still be better than the best
  std::optional<Time> own{};  // the step of the scenario's own plan
  std::string gain{};         // of the best over it: "the best is 12.3 % faster than yours"
  std::vector<SearchedPlan> plans{};
  std::vector<std::size_t> best{};   // indices in `plans`, best first; empty: none fits
  std::vector<RankedPlan> ranked{};  // settings of each of `best`
  std::string execution{};           // command that executes the best plan; may be empty
  // The number of plans by verdict; the sum is the whole space.
  std::vector<std::pair<std::string, std::int64_t>> became{};
  // The best plan's sensitivity: a heading, and rows with a change and its step time.
  std::vector<std::pair<std::string, Time>> sensitivity{};
};

// The result of a search as one HTML page: the best plan, step time against memory of all simulated
// plans, the verdicts on the others, and the best plan's sensitivity.
std::string PlanPage(const SearchView& view);

// A rank's allocated memory over one step, by category. Internal to this package.

// The memory from `start` until the next instant.
struct MemoryInstant {
  Time start;  // since the window's start
  forecast::BytesByCategory bytes{};
};

// The memory account over step `step` of the timeline, from `start` to `end`. Memory changes in
// host order, and the host may be far ahead of the device. Each change is therefore placed where
// the compute stream reaches that point of the program; the prologue's changes are at the start of
// step 0. At equal times, the state with the most memory is kept. There are at most about 2 x
// `most` instants; merged neighbors keep the state with the most memory.
std::vector<MemoryInstant> MemoryOver(const program::Program& program,
                                      const program::Timeline& timeline,
                                      const memory::Account& account, std::uint32_t step,
                                      Time start, Time end, std::size_t most);

// Stacked areas, with the device's capacity if it is near.
Chart MemoryChart(const std::vector<MemoryInstant>& instants, Time length,
                  const forecast::MemoryForecast& memory);

// A forecast as one HTML page: time breakdown, timeline of the step's streams, memory over the
// step, collectives, and the scenario with its defaults.
std::string SimulatePage(const scenario::Scenario& scenario, const forecast::Run& run);

// A sweep as one HTML page: its best row, line charts along one axis, heat maps over two, step time
// against memory, and the rows. `about`: label and text of the varied scenario ("model", ...); may
// be empty. `stages`: rows to be drawn one above another; may be empty. `target` describes the
// training.
std::string SweepPage(const std::string& title,
                      const std::vector<std::pair<std::string, std::string>>& about,
                      const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const std::vector<StageRows>& stages = {},
                      const forecast::TrainingTarget& target = {});

}  // namespace stepcast::report
