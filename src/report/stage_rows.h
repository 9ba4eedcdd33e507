#pragma once

#include <string>
#include <vector>

#include "src/forecast/forecast.h"
#include "src/report/page.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {

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
