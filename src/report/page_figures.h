#pragma once

#include <string>
#include <vector>

#include "src/forecast/forecast.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/timeline_chart.h"

// Parts of pages that describe a step.
namespace stepcast::report {

// The colors of the parts of a step's time; allocator flushes and learned time are included only if
// they are not zero.
Palette BreakdownPalette(const forecast::TimeBreakdown& time);

// Adds the parts of a step as rows of StackedBars, under `bar`.
void AddBreakdown(ChartData& data, const std::string& bar, const forecast::TimeBreakdown& time,
                  Time step);

// Step time, throughput, utilization and memory of a forecast as the page's large figures.
std::vector<PageFigure> AnswerOf(const forecast::Forecast& forecast);

// The compute streams in the forecast's step, one lane per class.
std::vector<Lane> LanesOfClasses(const forecast::Run& run);

// The forecast's step in the timeline of one class.
StepWindow WindowOf(const forecast::Run& run, const forecast::ClassRun& own);

// The compute streams of a pipeline's stages in one step, one lane each.
struct StageRows {
  std::string name;  // of the plan: "zb_h1"
  std::vector<Lane> lanes;
  Time length;  // of the step
};
StageRows StageRowsOf(std::string name, const forecast::Run& run);

// The stages of several plans, one plan above another, on a common time axis.
PageSection StagesSection(const std::vector<StageRows>& plans);

}  // namespace stepcast::report
