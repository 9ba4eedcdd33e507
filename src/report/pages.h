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
#include "src/report/stage_rows.h"
#include "src/scenario/scenario.h"

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
  std::int64_t open = 0;      // of them, those that may still be better than the best
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

// A rank's allocated memory, by category, over one step. For the .cc files of this package only.

// From `start` until the next one's.
struct MemoryInstant {
  Time start;  // since the window's start
  forecast::BytesByCategory bytes{};
};

// The account over step `step` of the timeline, which ends at `end` and began at `start`. Memory
// changes in host order, and the host may be far ahead of the device, so each moment stands where
// the compute stream gets to that place of the program; what the prologue does stands where step 0
// begins. Of what happens there at one instant
// the fullest moment is kept. At most about twice `most` instants: of neighbours that are joined,
// the fullest.
std::vector<MemoryInstant> MemoryOver(const program::Program& program,
                                      const program::Timeline& timeline,
                                      const memory::Account& account, std::uint32_t step,
                                      Time start, Time end, std::size_t most);

// Stacked areas, with the device's capacity where it is near.
Chart MemoryChart(const std::vector<MemoryInstant>& instants, Time length,
                  const forecast::MemoryForecast& memory);

// A forecast as one HTML page: where the time goes, the timeline of the step's streams, memory over
// the step, collectives, and the scenario with its defaults.
std::string SimulatePage(const scenario::Scenario& scenario, const forecast::Run& run);

// A sweep as one HTML page: its best row, figures along an axis as lines, two axes as a heat map,
// step time against memory, and the rows. `about`: of the scenario that was varied, "model" and
// what it is, and so on; may be empty. `stages`: of rows to draw one above the other; may be empty.
// `target`: what is said of the training.
std::string SweepPage(const std::string& title,
                      const std::vector<std::pair<std::string, std::string>>& about,
                      const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const std::vector<StageRows>& stages = {},
                      const forecast::TrainingTarget& target = {});

}  // namespace stepcast::report
