#pragma once

#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/forecast/values.h"
#include "src/scenario/scenario.h"

// The output of `gallery`: forecasts of well-known training runs compared with published steps.
namespace stepcast::report {

struct GalleryStep {
  std::string title;          // "Llama 3 405B"
  std::string page;           // file name of the forecast's page; empty: no page
  std::string machine, plan;  // "2,048 nodes of 8 x h100-96gb", "megatron, ZeRO stage 1, ..."
  std::string source;         // source of the published step
  std::string row;            // "FILE NAME" of the step in calibration/published
  std::vector<std::string> stand_ins;  // differences between the simulation and the run
  Time published;
  forecast::Forecast forecast;

  // Returns the forecast's relative error for the published step.
  double error() const { return forecast.step_time / published - 1; }
};

// Sets `machine` and `plan` from the scenario.
void DescribeRun(const scenario::Scenario& scenario, GalleryStep& step);

std::string GalleryText(const std::vector<GalleryStep>& steps);

// Returns one HTML page without scripts, with links to the steps' pages.
std::string GalleryPage(const std::vector<GalleryStep>& steps);

}  // namespace stepcast::report
