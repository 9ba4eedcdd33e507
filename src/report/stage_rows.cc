#include "src/report/stage_rows.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/report/page_figures.h"

namespace stepcast::report {

StageRows StageRowsOf(std::string name, const forecast::Run& run) {
  const StepWindow window = WindowOf(run, run.critical_class());
  return {
      .name = std::move(name), .lanes = LanesOfClasses(run), .length = window.end - window.start};
}

PageSection StagesSection(const std::vector<StageRows>& plans) {
  std::vector<Lane> lanes;
  Time longest;
  for (const StageRows& plan : plans) {
    longest = std::max(longest, plan.length);
    for (Lane lane : plan.lanes) {
      lane.name = fmt::format("{}: {}", plan.name, lane.name);
      lanes.push_back(std::move(lane));
    }
  }
  TimelineFigure figure =
      TimelineChart(std::move(lanes), longest, "What the stages of each plan compute in one step");
  PageSection section{.heading = "Stages"};
  section.paragraphs = {
      "A row for each stage of each plan that fits, all along one axis: what its compute stream "
      "does when. Gaps are waits for other stages, for communication and for the host."};
  Draw(figure, section);
  return section;
}

}  // namespace stepcast::report
