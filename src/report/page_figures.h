#pragma once

#include <vector>

#include "src/forecast/forecast.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/timeline_chart.h"

// Pieces of pages that describe a step. For the .cc files of this package only.
namespace stepcast::report {

// Forward, backward, optimizer, exposed communication, idle.
// `flushes`: with the time of allocator flushes, which few steps have.
Palette BreakdownPalette(const forecast::TimeBreakdown& time);

// The five parts of a step as rows of StackedBars, under `bar`.
void AddBreakdown(ChartData& data, const std::string& bar, const forecast::TimeBreakdown& time,
                  Time step);

// Step time, throughput, utilization and memory of a forecast as the page's large figures.
std::vector<PageFigure> AnswerOf(const forecast::Forecast& forecast);

// The compute streams of all its classes in the forecast's step, a lane a class.
std::vector<Lane> LanesOfClasses(const forecast::Run& run);

// The forecast's step in the timeline of one of its classes.
StepWindow WindowOf(const forecast::Run& run, const forecast::ClassRun& own);

}  // namespace stepcast::report
