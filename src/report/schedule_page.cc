#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/time.h"
#include "src/parallel/schedule_text.h"
#include "src/report/dumps.h"
#include "src/report/pages.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {
namespace {

using parallel::Action;
using parallel::Task;

// The chart draws a slot as a millisecond.
stepcast::Time AtSlot(std::int64_t slot) { return stepcast::Milliseconds(slot); }

BarKind KindOf(Task task) {
  switch (task) {
    case Task::kForward:
      return BarKind::kForward;
    case Task::kBackward:
    case Task::kBackwardInput:
      return BarKind::kBackward;
    case Task::kBackwardWeight:
      break;
  }
  return BarKind::kBackwardWeight;
}

// The passes of an overlapped pair are drawn one after the other.
Lane LaneOf(const TimedSchedule& timed, std::size_t number) {
  const parallel::PipelineSchedule::Stage& stage = timed.schedule.stages[number];
  const int own = stage.chunks.size() == 1 ? stage.chunks.front() : -1;
  Lane lane{.name = fmt::format("stage {}", number)};
  for (std::size_t i = 0; i < stage.entries.size(); ++i) {
    const auto [begin, end] = timed.timing.spans[number][i];
    std::int64_t start = begin;
    for (const Action& action : parallel::ActionsOf(stage.entries[i])) {
      const std::int64_t until = std::min(end, start + timed.durations.Of(action));
      if (until > start) {
        lane.bars.push_back(
            {.start = AtSlot(start),
             .end = AtSlot(until),
             .kind = KindOf(action.task),
             .name = parallel::Print(stage.entries[i], own),
             .of = fmt::format("micro-batch {}, chunk {}", action.micro_batch, action.chunk),
             .busy = AtSlot(until - start)});
      }
      start = until;
    }
  }
  return lane;
}

PageSection DrawingSection(const TimedSchedule& timed) {
  PageSection section{.heading = "Passes of each stage over time"};
  std::size_t passes = 0;
  for (const auto& stage : timed.schedule.stages) passes += stage.entries.size();
  constexpr std::size_t kMostPasses = 20'000;
  if (passes > kMostPasses) {
    section.paragraphs = {
        fmt::format("The page draws only up to {} passes, but the schedule has {} passes. Reduce "
                    "--micro-batches: the pattern of the schedule repeats.",
                    Grouped(kMostPasses), Grouped(static_cast<std::int64_t>(passes)))};
    return section;
  }
  section.paragraphs = {
      "Each row is a stage. F: forward pass, B: backward pass, I: backward pass for inputs, W: "
      "backward pass for weights. The number is the micro-batch; the chunk follows after a dot."};
  std::vector<Lane> lanes;
  for (std::size_t number = 0; number < timed.schedule.stages.size(); ++number) {
    lanes.push_back(LaneOf(timed, number));
  }
  TimelineFigure figure =
      TimelineChart(std::move(lanes), AtSlot(timed.timing.slots),
                    "The passes of every stage of the pipeline over one step", "slots");
  Draw(figure, section);
  return section;
}

}  // namespace

std::string SchedulePage(const TimedSchedule& timed) {
  const std::string bubble = Decimal(kHundred * timed.bubble(), 1) + " %";
  Page page{.kind = "Pipeline schedule", .title = timed.name};
  page.asked = {
      {"stages", Grouped(static_cast<std::int64_t>(timed.schedule.stages.size()))},
      {"micro-batches", Grouped(timed.schedule.micro_batches)},
      {"durations", fmt::format("forward {}, backward for inputs {}, backward for weights {} slots",
                                timed.durations.forward, timed.durations.backward_input,
                                timed.durations.backward_weight)}};
  page.verdict = fmt::format("A step takes {} slots; the stages are idle for {} of the time.",
                             Grouped(timed.timing.slots), bubble);
  page.answer = {
      {.label = "Step", .value = Grouped(timed.timing.slots) + " slots"},
      {.label = "Bubble", .value = bubble, .more = "of the time of all stages"},
      {.label = "Micro-batches in flight",
       .value = Grouped(*std::max_element(timed.in_flight.begin(), timed.in_flight.end())),
       .more = "maximum on one stage"}};
  page.sections = {
      DrawingSection(timed),
      {.heading = "Stages",
       .paragraphs = {"In flight: the maximum number of micro-batches whose activations a stage "
                      "stores at once. The drawing assumes that all stages take the same time and "
                      "that communication takes no time."},
       .tables = {{.caption = "Slots by stage", .table = ScheduleStages(timed).ToTable()}}}};
  return PageHtml(page);
}

}  // namespace stepcast::report
