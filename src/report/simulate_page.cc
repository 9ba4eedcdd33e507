#include "src/report/simulate_page.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/memory/account.h"
#include "src/report/categories.h"
#include "src/report/charts.h"
#include "src/report/figures_text.h"
#include "src/report/memory_chart.h"
#include "src/report/number_text.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {
namespace {

PageSection BreakdownSection(const forecast::Forecast& forecast) {
  PageSection section{.heading = "Where the time goes"};
  section.paragraphs = {
      "Every instant belongs to the phase of the kernel that computes then; else to exposed "
      "communication if something waits for a collective or a message, to imbalance if that "
      "waits for another rank to reach it, or to the pipeline bubble if another stage has not "
      "reached it; else the device is idle. The parts add up to the step."};
  ChartData data;
  AddBreakdown(data, "step", forecast.time, forecast.step_time);
  section.chart = StackedBars(
      "Where the time of one step goes, as one stacked bar; the table below has its parts", "ms",
      std::move(data), BreakdownPalette(forecast.time), 1);
  section.tables.push_back(
      {.caption = "Parts of the step", .table = TimeRows(forecast), .folded = false});
  if (!forecast.classes.empty()) {
    section.tables.push_back({.caption = "Classes of ranks: the parts of the step for each",
                              .table = ClassRows(forecast),
                              .folded = false});
  }
  return section;
}

PageSection TimelineSection(const scenario::Scenario& scenario, const forecast::Run& run) {
  const StepWindow window = WindowOf(run, run.critical_class());
  const int ranks = scenario.cluster->devices();
  const int rank = run.critical_class().first_rank;
  TimelineFigure figure = TimelineChart(
      LanesOf(window), window.end - window.start,
      fmt::format("Timeline of one step on rank {}: what its streams and its host do when", rank));
  PageSection section{.heading = "Timeline of one step"};
  if (ranks == 1) {
    section.paragraphs = {"One step in the steady state, stream by stream."};
  } else if (!run.forecast.classes.empty()) {
    section.paragraphs = {fmt::format(
        "One step in the steady state, stream by stream, on rank {}, which ends it last. "
        "The table of classes above has the others.",
        rank)};
  } else if (scenario.network == scenario::Fidelity::kAnalytic) {
    section.paragraphs = {
        fmt::format("One step in the steady state, stream by stream. All {} ranks run the same "
                    "program under the same circumstances, so rank {} stands for all of them.",
                    Grouped(ranks), rank)};
  } else {
    section.paragraphs = {fmt::format(
        "One step in the steady state, stream by stream, on rank {}. Of ranks that nothing tells "
        "apart, links included, one was simulated. Collectives wait for the last of their ranks, "
        "so this one shows what the others cost it.",
        rank)};
  }
  Draw(figure, section);
  section.tables.push_back(
      {.caption = "How busy each stream is", .table = std::move(figure.lanes)});
  section.tables.push_back(
      {.caption = "The longest operations", .table = std::move(figure.longest), .folded = true});
  return section;
}

PageSection ClassesSection(const forecast::Run& run) {
  const StepWindow window = WindowOf(run, run.critical_class());
  TimelineFigure figure =
      TimelineChart(LanesOfClasses(run), window.end - window.start,
                    "What the compute stream of each class of ranks does in one step");
  PageSection section{.heading = "The same step in each class of ranks"};
  section.paragraphs = {
      "A row for the first rank of each class: what its compute stream does when. Gaps are waits "
      "for other ranks, for communication and for the host."};
  Draw(figure, section);
  return section;
}

PageSection MemorySection(const forecast::Run& run) {
  const forecast::MemoryForecast& memory = run.forecast.memory;
  const forecast::ClassRun& own = run.fullest_class();
  const auto& ends = own.timeline.step_ends;
  // The peak is a figure of the whole run: the step is one that has it.
  const std::uint32_t step =
      memory::StepOfPeak(own.program, own.memory, run.first_step, run.first_step);
  const Time start = step == 0 ? Time() : ends[step - 1], end = ends[step];
  constexpr std::size_t kMostInstants = 500;
  const std::vector<MemoryInstant> instants =
      MemoryOver(own.program, own.timeline, own.memory, step, start, end, kMostInstants);
  PageSection section{.heading = "Memory over the step"};
  section.paragraphs = {
      "What the allocator has handed out at each point of the program, drawn where the compute "
      "stream gets there. The host asks for it earlier, as far as it runs ahead of the device."};
  section.chart = MemoryChart(instants, end - start, memory);
  if (step != run.first_step) {
    section.notes.push_back(
        fmt::format("Step {} of the run is shown, which has the peak; the figures of time are "
                    "those of step {}.",
                    step, run.first_step));
  }
  if (instants.size() >= kMostInstants / 2) {
    section.notes.push_back(
        "Of neighbouring moments too close to be told apart the fullest is shown.");
  }
  section.tables.push_back({.caption = fmt::format("At the peak, on rank {}", memory.rank),
                            .table = MemoryRows(memory)});
  return section;
}

PageSection CollectiveSection(const forecast::Forecast& forecast) {
  PageSection section{.heading = "Collectives"};
  if (forecast.collectives.empty()) {
    section.paragraphs = {"There are none."};
    return section;
  }
  section.paragraphs = {fmt::format("Under way for {} ms of the step, of which {} ms are exposed.",
                                    Milliseconds(forecast.communication_total),
                                    Milliseconds(forecast.time.exposed_communication))};
  section.tables.push_back(
      {.caption = "Of one rank in one step", .table = CollectiveRows(forecast)});
  return section;
}

}  // namespace

std::string SimulatePage(const scenario::Scenario& scenario, const forecast::Run& run) {
  Page page;
  page.kind = "Forecast of one training step";
  page.title = scenario.name;
  page.asked = ForecastFacts(scenario);
  page.answer = AnswerOf(run.forecast);
  page.warnings = scenario.warnings;
  page.sections = {BreakdownSection(run.forecast)};
  if (run.classes.size() > 1) page.sections.push_back(ClassesSection(run));
  page.sections.push_back(TimelineSection(scenario, run));
  page.sections.push_back(MemorySection(run));
  page.sections.push_back(CollectiveSection(run.forecast));
  page.appendices = {{"The scenario with every default", Text(ToJson(scenario.resolved))}};
  return PageHtml(page);
}

}  // namespace stepcast::report
