#pragma once

#include <string>
#include <vector>

#include "src/forecast/forecast.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/timeline_chart.h"

// Parts of pages that describe a step.
namespace stepcast::report {

// Returns the colors of the parts of a step's time. Allocator flushes and learned time are included
// only if they are not zero.
Palette BreakdownPalette(const forecast::TimeBreakdown& time);

// Adds the parts of a step as rows of the data for StackedBars. `bar` is the name of the bar.
void AddBreakdown(ChartData& data, const std::string& bar, const forecast::TimeBreakdown& time,
                  Time step);

// Returns a forecast's step time, throughput, utilization and memory as the large figures of the
// page.
std::vector<PageFigure> AnswerOf(const forecast::Forecast& forecast);

// Returns the compute streams in the forecast's step, one lane per class of ranks.
std::vector<Lane> LanesOfClasses(const forecast::Run& run);

// Returns the forecast's step in the timeline of one class of ranks.
StepWindow WindowOf(const forecast::Run& run, const forecast::ClassRun& own);

// The compute streams of a pipeline's stages in one step, one lane per stage.
struct StageRows {
  std::string name;  // of the plan: "zb_h1"
  std::vector<Lane> lanes;
  Time length;  // of the step
};
StageRows StageRowsOf(std::string name, const forecast::Run& run);

// Draws the stages of several plans, one plan below another, on a common time axis.
PageSection StagesSection(const std::vector<StageRows>& plans);

}  // namespace stepcast::report
