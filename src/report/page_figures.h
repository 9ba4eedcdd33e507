#pragma once

#include <string>
#include <vector>

#include "src/base/bytes.h"
#include "src/forecast/forecast.h"
#include "src/forecast/values.h"
#include "src/program/program.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/timeline_chart.h"
#include "src/scenario/scenario.h"

// Parts of pages that describe a scenario or its step.
namespace stepcast::report {

// Returns a page with a scenario's name, facts, warnings and, at the end, settings with all
// defaults. The page has an empty answer and no sections.
Page PageOf(const scenario::Scenario& scenario, std::string kind);

// Returns the colors of the parts of a step's time. Allocator flushes and the learned correction
// are included only if they are not zero.
Palette BreakdownPalette(const forecast::TimeBreakdown& time);

// Adds the parts of a step to `data` as rows for StackedBars. `bar` is the name of the bar.
void AddBreakdown(ChartData& data, const std::string& bar, const forecast::TimeBreakdown& time,
                  Time step);

// Returns a forecast's step time, throughput, utilization and memory as the large numbers of a
// page.
std::vector<PageFigure> AnswerOf(const forecast::Forecast& forecast);

Tone ToneOf(forecast::MemoryVerdict verdict);

// Returns a section that shows the parts of a step's time, as a bar and as a table.
PageSection BreakdownSection(const forecast::Forecast& forecast);

// A bar of MemoryBars.
struct MemoryBar {
  std::string name;
  forecast::BytesByCategory bytes{};
  Bytes unused{};   // reserved by the allocator but not used
  Bytes outside{};  // memory outside the allocator
};
MemoryBar MemoryBarOf(std::string name, const forecast::MemoryForecast& memory);
// Returns a chart of stacked bars: memory by category, with the capacity as a line.
Chart MemoryBars(const std::string& label, const std::vector<MemoryBar>& bars, Bytes capacity);

// Returns the color variable of a memory category.
const char* ColourOf(program::Category category);

// Returns the compute streams of the forecast's step, one lane per class of ranks.
std::vector<Lane> LanesOfClasses(const forecast::Run& run);

// Returns the window of the forecast's step in the timeline of one class of ranks.
StepWindow WindowOf(const forecast::Run& run, const forecast::ClassRun& own);

// The compute streams of a pipeline's stages in one step, with one lane per stage.
struct StageRows {
  std::string name;  // name of the plan, such as "zb_h1"
  std::vector<Lane> lanes;
  Time length;  // length of the step
};
StageRows StageRowsOf(std::string name, const forecast::Run& run);

// Returns a drawing of the stages of several plans, one plan below another, on a common time axis.
PageSection StagesSection(const std::vector<StageRows>& plans);

}  // namespace stepcast::report
