#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/program/description.h"
#include "src/report/answer.h"
#include "src/report/charts.h"
#include "src/report/hardware_reports.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/step_figures.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {
namespace {

using enum Align;

Json Relative(double difference, double measured) {
  return measured == 0 ? Json() : Json(difference / measured);
}

AnswerTable PairTable(const std::string& heading, const std::string& key) {
  return {{{heading, key, kLeft},
           {"forecast ms", "forecast_s"},
           {"measured ms", "measured_s"},
           {"difference", "difference_s"},
           {"%", "error"}}};
}

std::vector<Cell> CellsOf(const validate::TimePair& pair) {
  const double difference = pair.difference().seconds(), measured = pair.measured.seconds();
  return {pair.name, pair.forecast, pair.measured, pair.difference(),
          Cell(ChangeText(difference, measured), Relative(difference, measured))};
}

Json PairJson(const validate::TimePair& pair) {
  AnswerTable table = PairTable("pair", "");
  table.Add(CellsOf(pair));
  Json array = table.ToJson();
  return array[0];
}

Table TimeTable(const validate::Comparison& comparison) {
  AnswerTable parts = PairTable("where the time goes", "");
  for (const validate::TimePair& pair : comparison.time) parts.Add(CellsOf(pair));
  AnswerTable all = PairTable("", "");
  for (const validate::TimePair& pair : {comparison.step, comparison.communication}) {
    all.Add(CellsOf(pair));
  }
  Table table = parts.ToTable();
  table.AddRule();
  const Table whole_step = all.ToTable();
  for (const std::vector<std::string>& row : whole_step.rows()) table.AddRow(row);
  return table;
}

AnswerTable Kinds(const validate::Comparison& comparison) {
  AnswerTable table = PairTable("operations of a step", "operation");
  table.columns.insert(table.columns.begin() + 1, {"calls", "calls"});
  for (const validate::TimePair& pair : comparison.kinds) {
    table.Add(CellsOf(pair));
    table.rows.back().insert(table.rows.back().begin() + 1, Cell(pair.calls));
  }
  return table;
}

AnswerTable Largest(const program::Program& program, const validate::Comparison& comparison) {
  AnswerTable table{{{"largest differences", "operation", kLeft},
                     {"of", "label", kLeft},
                     {"stream", "stream", kLeft},
                     {"", "phase"},
                     {"", "micro_batch"},
                     {"starts forecast", "forecast_start_s"},
                     {"measured", "measured_start_s"},
                     {"takes forecast", "forecast_s"},
                     {"measured", "measured_s"},
                     {"difference", "difference_s"}}};
  for (const validate::OperationPair& pair : comparison.largest) {
    const program::Instruction& instruction = program.step[pair.instruction];
    const bool labeled = instruction.label != program::kNone;
    const bool on_stream = program::RunsOnStream(instruction.opcode);
    table.Add({program::OperandName(program, instruction),
               WordOr(labeled ? program.labels[instruction.label] : "", ""),
               on_stream ? program.streams[instruction.stream].name : "host",
               Name(instruction.phase), instruction.micro_batch, pair.forecast_start,
               pair.measured_start, pair.forecast_duration, pair.measured_duration,
               pair.difference()});
  }
  return table;
}

std::string MemoryTable(const validate::Comparison& comparison) {
  const validate::BytesPair& peak = comparison.peak;
  const Bytes difference = peak.forecast - peak.measured;
  const ByteUnit unit = UnitFor(std::max(peak.forecast, peak.measured));
  Table table({{"memory", kLeft},
               {fmt::format("forecast {}", unit.name)},
               {fmt::format("measured {}", unit.name)},
               {"difference"},
               {"%"}});
  table.AddRow({"peak", In(unit, peak.forecast), In(unit, peak.measured),
                SignedIn(unit, difference),
                ChangeText(static_cast<double>(difference.count()),
                           static_cast<double>(peak.measured.count()))});
  return table.ToString();
}

std::string AccuracySentence(const validate::Comparison& comparison, double within) {
  const double error = comparison.step_error();
  return fmt::format("step time: forecast {}, measured {}: {} %, {} {} %\n",
                     FormatTime(comparison.step.forecast), FormatTime(comparison.step.measured),
                     Signed(100 * error, 1), std::abs(error) <= within ? "within" : "not within",
                     Decimal(100 * within, 1));
}

Json TimeOfStep(const validate::Comparison& comparison) {
  Json object = Json::object();
  for (const validate::TimePair& pair : comparison.time) {
    for (const forecast::TimePart& part : forecast::PartsOf({})) {
      if (part.name == pair.name) object[std::string(part.key)] = PairJson(pair);
    }
  }
  return object;
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
  PageSection section{.heading = "Time breakdown"};
  section.chart =
      BreakdownChart("Time breakdown of one step, forecast above measured, as two stacked bars",
                     {{"forecast", &forecast.forecast}, {"measured", &execution.figures}});
  section.tables.push_back({.caption = "Parts of the step", .table = TimeTable(comparison)});
  return section;
}

PageSection KindSection(const validate::Comparison& comparison) {
  PageSection section{.heading = "Operations"};
  section.paragraphs = {
      "Each point is the summed time of one kind of operation in one step, forecast against "
      "measured. On the solid line, forecast and measurement are equal; on the dashed lines, they "
      "differ by 10 %."};
  ChartData data;
  for (const validate::TimePair& pair : comparison.kinds) {
    const double forecast = InMilliseconds(pair.forecast), measured = InMilliseconds(pair.measured);
    if (forecast <= 0 || measured <= 0) continue;  // no place on a logarithmic axis
    data.Word("name", pair.name);
    data.Number("calls", static_cast<double>(pair.calls));
    data.Number("measured", measured);
    data.Number("forecast", forecast);
    data.Number("error", Rounded(kHundred * (forecast - measured) / measured));
    data.Word("group", "operations");
  }
  if (data.rows() > 0) {
    section.chart =
        PredictedAgainstMeasured("Forecast time against measured time, for every kind of operation",
                                 "ms", std::move(data), {},
                                 {{"name", "Operation"},
                                  {"calls", "Calls in a step"},
                                  {"measured", "Measured", "ms", 3},
                                  {"forecast", "Forecast", "ms", 3},
                                  {"error", "Error", "%", 1}});
  }
  section.tables.push_back(
      {.caption = "Kinds of operations, sums over one step", .table = Kinds(comparison).ToTable()});
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
      "Upper chart: the forecast step. Lower chart: the measured step with the median time, on "
      "rank {}, which finished last of {} ranks. Both begin at zero.",
      execution.critical_rank, execution.ranks.size())};
  DrawTraced(figure, section);
  return section;
}

}  // namespace

std::string ValidationText(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within) {
  return fmt::format(
      "{}{}\n"
      "{}\n"
      "{}\n"
      "{}times in ms; start times are relative to the start of the step\n"
      "\n"
      "{}\n"
      "{}",
      Header(scenario, ForecastFacts(scenario)), RunLine(execution),
      TimeTable(comparison).ToString(), Kinds(comparison).Text(),
      Largest(execution.program_of(execution.critical()), comparison).Text(),
      MemoryTable(comparison), AccuracySentence(comparison, within));
}

std::string ValidationJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                           const validate::Comparison& comparison, double within, double seconds) {
  const validate::BytesPair& peak = comparison.peak;
  const auto forecast_peak = static_cast<double>(peak.forecast.count());
  const auto measured_peak = static_cast<double>(peak.measured.count());
  Json document = ExecutedJson(scenario, execution);
  document.update({{"ranks", execution.ranks.size()},
                   {"within", within},
                   {"ok", std::abs(comparison.step_error()) <= within},
                   {"step_time_s", PairJson(comparison.step)},
                   {"steps_s", StepsJson(execution)},
                   {"time_s", TimeOfStep(comparison)},
                   {"communication_total_s", PairJson(comparison.communication)},
                   {"operations", Kinds(comparison).ToJson()},
                   {"largest_differences",
                    Largest(execution.program_of(execution.critical()), comparison).ToJson()},
                   {"peak_bytes",
                    {{"forecast", peak.forecast.count()},
                     {"measured", peak.measured.count()},
                     {"difference", (peak.forecast - peak.measured).count()},
                     {"error", Relative(forecast_peak - measured_peak, measured_peak)}}}});
  Close(scenario, seconds, document);
  return Text(document);
}

std::string ValidationPage(const scenario::Scenario& scenario, const forecast::Run& forecast,
                           const validate::Execution& execution,
                           const validate::Comparison& comparison, double within) {
  Page page;
  page.kind = "Forecast against an execution";
  page.title = scenario.name;
  page.asked = ForecastFacts(scenario);
  page.asked.emplace_back(
      "executed", fmt::format("executed by the {} backend on {} ranks, with {} measured steps",
                              execution.backend, execution.ranks.size(), execution.steps.size()));
  for (const auto& [what, value] : execution.machine) page.asked.emplace_back(what, value);
  page.answer = Answer(comparison, within);
  page.warnings = scenario.warnings;
  page.sections = {BreakdownSection(forecast, execution, comparison), KindSection(comparison),
                   TimelineSection(forecast, execution)};
  page.appendices = {
      {"The scenario, including all default values", Text(ToJson(scenario.resolved))}};
  return PageHtml(page);
}

}  // namespace stepcast::report
