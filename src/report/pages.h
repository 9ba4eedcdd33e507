#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/forecast.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/memory/account.h"
#include "src/planner/sweep.h"
#include "src/planner/sweep_grid.h"
#include "src/program/program.h"
#include "src/program/timeline.h"
#include "src/report/dumps.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/scenario/scenario.h"

namespace stepcast::report {

// A rank's allocated memory over one step, by category. Internal to this package.

// The memory from `start` until the start of the next MemoryInstant.
struct MemoryInstant {
  Time start;  // since the window's start
  forecast::BytesByCategory bytes{};
};

// Returns a rank's memory over step `step` of the timeline, from `start` to `end`. Each change of
// memory is shown when the compute stream reaches the change, because the host may be far ahead of
// the device. Memory changes during the prologue are shown at the start of step 0. To limit the
// result to about 2 x `most` instants, neighboring instants are merged into one instant with their
// largest memory.
std::vector<MemoryInstant> MemoryOver(const program::Program& program,
                                      const program::Timeline& timeline,
                                      const memory::Account& account, std::uint32_t step,
                                      Time start, Time end, std::size_t most);

// Returns a forecast as one HTML page: time breakdown, timeline of the step's streams, memory over
// the step, collectives, and the scenario with its defaults. `trace` is the file name of a trace
// next to the page; empty: no trace.
std::string SimulatePage(const scenario::Scenario& scenario, const forecast::Run& run,
                         const std::string& trace = "");

// Returns a pipeline schedule as one HTML page: a drawing of each stage's passes, and a table by
// stage.
std::string SchedulePage(const TimedSchedule& timed);

// Returns a sweep as one HTML page. The page has the best row, line charts along one axis, heat
// maps over two axes, a chart of step time and memory, and the rows. `about` has a label and a text
// for each varied part of the scenario ("model", ...). `stages` are drawn one below another.
// `about` and `stages` may be empty. `target` describes the training.
std::string SweepPage(const std::string& title,
                      const std::vector<std::pair<std::string, std::string>>& about,
                      const planner::SweepGrid& grid, const std::vector<planner::SweepRow>& rows,
                      const std::vector<StageRows>& stages = {},
                      const forecast::TrainingTarget& target = {});

// The output of `gallery`: forecasts of well-known training runs compared with published steps.

struct GalleryStep {
  std::string title;              // "Llama 3 405B"
  std::string page{};             // file name of the forecast's page; empty: no page
  std::string machine{}, plan{};  // "2,048 nodes of 8 x h100-96gb", "megatron, ZeRO stage 1, ..."
  std::string source;             // source of the published step, such as a paper
  std::string row;                // "FILE NAME" of the step in calibration/published
  std::vector<std::string> stand_ins;  // differences between the simulation and the run
  Time published;
  forecast::Forecast forecast{};

  // Returns the forecast's relative error for the published step.
  double error() const { return forecast.step_time / published - 1; }
};

// Sets `machine` and `plan` from the scenario.
void DescribeRun(const scenario::Scenario& scenario, GalleryStep& step);

std::string GalleryText(const std::vector<GalleryStep>& steps);

// Returns one HTML page without scripts, with links to the steps' pages.
std::string GalleryPage(const std::vector<GalleryStep>& steps);

}  // namespace stepcast::report
