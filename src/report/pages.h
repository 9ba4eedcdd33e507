#pragma once

#include <cstddef>
#include <cstdint>
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
