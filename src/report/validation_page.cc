#include "src/report/validation_page.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/report/charts.h"
#include "src/report/figures_text.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/table.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {
namespace {

std::string Error(Time difference, Time measured) {
  if (measured == Time()) return "-";
  return Signed(kHundred * (difference / measured), 1);
}

Table PairTable(const std::string& heading, const std::vector<validate::TimePair>& pairs) {
  Table table({{heading, Align::kLeft},
               {"forecast ms", Align::kRight},
               {"measured ms", Align::kRight},
               {"difference", Align::kRight},
               {"%", Align::kRight}});
  for (const validate::TimePair& pair : pairs) {
    table.AddRow({pair.name, Milliseconds(pair.forecast), Milliseconds(pair.measured),
                  SignedMilliseconds(pair.difference()), Error(pair.difference(), pair.measured)});
  }
  return table;
}

std::vector<PageFigure> Answer(const validate::Comparison& comparison, double within) {
  const double error = comparison.step_error();
  const bool right = std::abs(error) <= within;
  const validate::BytesPair& peak = comparison.peak;
  return {{.label = "Forecast step time", .value = FormatTime(comparison.step.forecast)},
          {.label = "Measured step time", .value = FormatTime(comparison.step.measured)},
          {.label = "Error of the step time",
           .value = fmt::format("{:+.1f} %", kHundred * error),
           .more = fmt::format("{} {} %", right ? "within" : "not within",
                               Decimal(kHundred * within, 1)),
           .tone = right ? Tone::kGood : Tone::kBad},
          {.label = "Peak memory",
           .value = FormatBytes(peak.forecast),
           .more = fmt::format("measured {}", FormatBytes(peak.measured))}};
}

PageSection BreakdownSection(const forecast::Run& forecast, const validate::Execution& execution,
                             const validate::Comparison& comparison) {
  PageSection section{.heading = "Where the time goes"};
  ChartData data;
  AddBreakdown(data, "forecast", forecast.forecast.time, forecast.forecast.step_time);
  AddBreakdown(data, "measured", execution.figures.time, execution.figures.step_time);
  section.chart =
      StackedBars("Where the time of one step goes, forecast above measured, as two stacked bars",
                  "ms", std::move(data), BreakdownPalette(forecast.forecast.time), 2);
  std::vector<validate::TimePair> pairs = comparison.time;
  pairs.push_back(comparison.step);
  pairs.push_back(comparison.communication);
  section.tables.push_back({.caption = "Parts of the step", .table = PairTable("part", pairs)});
  return section;
}

PageSection KindSection(const validate::Comparison& comparison) {
  PageSection section{.heading = "Operations"};
  section.paragraphs = {
      "Each point is a kind of operation: the sum over one step, forecast against measured. On the "
      "line both are the same; the dashed lines are ten per cent off."};
  ChartData data;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const validate::TimePair& pair : comparison.kinds) {
    const double forecast = InMilliseconds(pair.forecast), measured = InMilliseconds(pair.measured);
    if (forecast <= 0 || measured <= 0) continue;  // no place on a logarithmic axis
    least = std::min({least, forecast, measured});
    most = std::max({most, forecast, measured});
    data.Word("name", pair.name);
    data.Number("calls", static_cast<double>(pair.calls));
    data.Number("measured", measured);
    data.Number("forecast", forecast);
    data.Number("error", Rounded(kHundred * (forecast - measured) / measured));
    data.Word("group", "operations");
  }
  if (most > 0) {
    section.chart =
        PredictedAgainstMeasured("Forecast time over measured time of every kind of operation",
                                 "ms", std::move(data), {"operations"}, {}, least, most,
                                 {{"name", "Operation"},
                                  {"calls", "Calls in a step"},
                                  {"measured", "Measured", "ms", 3},
                                  {"forecast", "Forecast", "ms", 3},
                                  {"error", "Error", "%", 1}});
  }
  section.tables.push_back({.caption = "Kinds of operations, sums over one step",
                            .table = PairTable("operation", comparison.kinds)});
  return section;
}

PageSection TimelineSection(const forecast::Run& forecast, const validate::Execution& execution) {
  StepWindow forecast_window = WindowOf(forecast, forecast.class_of(execution.critical_rank));
  forecast_window.prefix = "forecast: ";
  const validate::MeasuredStep& step = execution.steps[execution.typical];
  const validate::RankRun& run = execution.critical();
  const StepWindow measured_window{.program = &execution.program_of(run),
                                   .timeline = &run.measurement.timeline,
                                   .prices = nullptr,
                                   .start = step.start,
                                   .end = step.end,
                                   .prefix = "measured: "};
  std::vector<Lane> lanes = LanesOf(forecast_window);
  for (Lane& lane : LanesOf(measured_window)) lanes.push_back(std::move(lane));
  const Time length = std::max(forecast_window.end - forecast_window.start, step.end - step.start);
  TimelineFigure figure =
      TimelineChart(std::move(lanes), length,
                    fmt::format("Timelines of one step, forecast above measured on rank {}",
                                execution.critical_rank));
  PageSection section{.heading = "Timelines of one step"};
  section.paragraphs = {fmt::format(
      "The forecast's step above the measured step that took the median time, on rank {}, the last "
      "of {} to finish it. Both begin at zero.",
      execution.critical_rank, execution.ranks.size())};
  Draw(figure, section);
  section.tables.push_back(
      {.caption = "How busy each stream is", .table = std::move(figure.lanes)});
  section.tables.push_back(
      {.caption = "The longest operations", .table = std::move(figure.longest), .folded = true});
  return section;
}

}  // namespace

std::string ValidationPage(const scenario::Scenario& scenario, const forecast::Run& forecast,
                           const validate::Execution& execution,
                           const validate::Comparison& comparison, double within) {
  Page page;
  page.kind = "Forecast against an execution";
  page.title = scenario.name;
  page.asked = ForecastFacts(scenario);
  page.asked.emplace_back(
      "executed", fmt::format("by the {} backend, {} ranks, {} steps measured", execution.backend,
                              execution.ranks.size(), execution.steps.size()));
  for (const auto& [what, value] : execution.machine) page.asked.emplace_back(what, value);
  page.answer = Answer(comparison, within);
  page.warnings = scenario.warnings;
  page.sections = {BreakdownSection(forecast, execution, comparison), KindSection(comparison),
                   TimelineSection(forecast, execution)};
  page.appendices = {{"The scenario with every default", Text(ToJson(scenario.resolved))}};
  return PageHtml(page);
}

}  // namespace stepcast::report
