#pragma once

#include <string>
#include <vector>

#include "src/forecast/forecast.h"
#include "src/report/page.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {

// The stages of a pipeline in one step, a lane each: what their compute streams do.
struct StageRows {
  std::string name;  // of the plan: "zb_h1"
  std::vector<Lane> lanes;
  Time length;  // of the step
};
StageRows StageRowsOf(std::string name, const forecast::Run& run);

// Several plans' one above the other, along one axis of time.
PageSection StagesSection(const std::vector<StageRows>& plans);

}  // namespace stepcast::report
