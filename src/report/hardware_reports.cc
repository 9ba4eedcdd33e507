#include "src/report/hardware_reports.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/memory/replay.h"
#include "src/program/description.h"
#include "src/report/answer.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/step_figures.h"
#include "src/report/timeline_chart.h"

namespace stepcast::report {
namespace {

using enum Align;

Time AsTime(double seconds) {
  constexpr double kPicosecondsPerSecond = 1e12;
  return Picoseconds(std::llround(seconds * kPicosecondsPerSecond));
}

double BytesPerSecond(const calibrate::Fitted& fit) {
  return fit.per_unit > 0 ? 1 / fit.per_unit : 0;
}

std::string Rate(const calibrate::Fitted& fit) {
  if (fit.per_unit <= 0) return "-";
  return FormatBandwidth(
      Bandwidth::BytesPerSecond(static_cast<std::int64_t>(std::llround(BytesPerSecond(fit)))));
}

Cell Percentage(double part) { return {fmt::format("{:.1f} %", 100 * part), Json(part)}; }
Cell Slowdown(double factor) { return {fmt::format("{:.2f} x", factor), Json(factor)}; }

AnswerTable Fits(const calibrate::Outcome& measured) {
  AnswerTable table{{{"time against bytes", "of", kLeft},
                     {"points", "points"},
                     {"start", "start_s"},
                     {"rate", "bytes_per_s"},
                     {"error of fit", "residual"}}};
  for (const calibrate::Fitted& fit : measured.fits) {
    table.Add({fit.what, Plain(fit.points), Cell(FormatTime(AsTime(fit.start)), fit.start),
               Cell(Rate(fit), BytesPerSecond(fit)), Percentage(fit.residual)});
  }
  return table;
}

AnswerTable Residuals(const calibration::Calibration& profile) {
  AnswerTable table{{{"precision of", "", kLeft},
                     {"spread", "spread"},
                     {"interpolation error", "interpolation"}}};
  for (const calibration::Residual& residual : profile.residuals) {
    table.Add({residual.of, Percentage(residual.spread), Percentage(residual.interpolation)});
  }
  return table;
}

AnswerTable Interference(const calibration::Calibration& profile) {
  AnswerTable table{{{"running together", "", kLeft},
                     {"", "kernel"},
                     {"", "collective"},
                     {"kernel slowdown", "kernel_slowdown"},
                     {"collective slowdown", "collective_slowdown"}}};
  for (const calibration::Interference& entry : profile.interference) {
    table.Add({fmt::format("{} and {}", Name(entry.kernel), Name(entry.collective)),
               Name(entry.kernel), Name(entry.collective), Slowdown(entry.kernel_slowdown),
               Slowdown(entry.collective_slowdown)});
  }
  return table;
}

AnswerTable Collectives(const calibration::Calibration& profile) {
  AnswerTable table{Keys("collective ranks nodes points largest_bytes")};
  for (const calibration::CollectiveTable& one : profile.collectives) {
    table.Add({Name(one.collective), one.ranks, one.nodes, one.points.size(),
               one.points.back().first.count()});
  }
  return table;
}

std::string Machine(const validate::Execution& execution) {
  std::string out;
  for (const auto& [what, value] : execution.machine)
    out += fmt::format("{:<10} {}\n", what, value);
  return out;
}

std::string StepTimes(const validate::Execution& execution) {
  const forecast::Forecast& figures = execution.figures;
  std::string out = fmt::format("step time  {}", FormatTime(figures.step_time));
  if (execution.steps.size() > 1) {
    out += fmt::format(", the median of {}: {} to {}", execution.steps.size(),
                       FormatTime(execution.shortest), FormatTime(execution.longest));
  }
  return out + "\n" + ThroughputLine(figures) + UtilizationLines(figures);
}

std::string MemoryOfRanks(const validate::Execution& execution) {
  const forecast::MemoryForecast& memory = execution.figures.memory;
  const ByteUnit unit = UnitFor(memory.peak);
  Table table({{fmt::format("memory of rank {}", memory.rank), Align::kLeft}, {unit.name}});
  table.AddRow({"peak memory of the plan's buffers", In(unit, memory.peak)});
  table.AddRow({"reserved for the buffers", In(unit, memory.reserved)});
  if (memory.outside > Bytes(0)) table.AddRow({"outside the pool", In(unit, memory.outside)});
  table.AddRow({"capacity", In(unit, memory.capacity)});
  return table.ToString();
}

Json Ranks(const validate::Execution& execution) {
  AnswerTable ranks{Keys("rank host local_rank peak_bytes reserved_bytes outside_bytes")};
  for (const validate::RankRun& run : execution.ranks) {
    const auto& memory = run.measurement.memory;
    ranks.Add({run.place.rank, run.place.host, run.place.local_rank, memory.peak.count(),
               memory.reserved.count(), memory.outside.count()});
  }
  return ranks.ToJson();
}

Json Memory(const forecast::MemoryForecast& memory) {
  Json object = MemoryJson(memory);
  Bytes known;
  for (const Bytes bytes : memory.at_peak) known += bytes;
  if (known == memory.peak) return object;
  // The device counts memory differently from the program, so categories would not add up.
  for (const std::string_view name : kCategoryNames) object[std::string(name) + "_bytes"] = Json();
  object["padding_bytes"] = Json();
  return object;
}

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

Json ExecutedJson(const scenario::Scenario& scenario, const validate::Execution& execution) {
  Json machine = Json::object();
  for (const auto& [what, value] : execution.machine) machine[what] = value;
  return Json{{"stepcast", 1},
              {"scenario", scenario.name},
              {"backend", execution.backend},
              {"machine", std::move(machine)}};
}

Json StepsJson(const validate::Execution& execution) {
  Json steps = Json::array();
  for (const validate::MeasuredStep& step : execution.steps) {
    steps.push_back(JsonSeconds(step.end - step.start));
  }
  return steps;
}

std::string RunLine(const validate::Execution& execution) {
  const std::size_t ranks = execution.ranks.size();
  const int hosts = execution.ranks.front().place.nodes;
  return fmt::format("{:<10} {}, {} {} on {} {}, {} {} measured{}\n", "run on", execution.backend,
                     Grouped(static_cast<std::int64_t>(ranks)), ranks == 1 ? "rank" : "ranks",
                     Grouped(hosts), hosts == 1 ? "host" : "hosts", execution.steps.size(),
                     execution.steps.size() == 1 ? "step" : "steps",
                     execution.barrier ? " between barriers" : "");
}

}  // namespace

std::string CalibrationText(const std::string& path, const calibrate::Outcome& measured) {
  const calibration::Calibration& profile = measured.profile;
  std::string text = fmt::format("profile '{}' written to {}\n", profile.name, path);
  if (profile.kernels) {
    text +=
        fmt::format("kernels: start {}, issue {}; collectives: issue {}\n",
                    FormatTime(profile.kernels->start_latency), FormatTime(profile.kernels->launch),
                    FormatTime(profile.kernels->collective_launch));
  }
  for (const AnswerTable& table : {Fits(measured), Interference(profile), Residuals(profile)}) {
    if (!table.rows.empty()) text += "\n" + table.Text();
  }
  return text;
}

std::string CalibrationJson(const std::string& path, const calibrate::Outcome& measured,
                            double seconds) {
  const calibration::Calibration& profile = measured.profile;
  Json provenance = Json::object();
  for (const auto& [key, value] : profile.provenance) provenance[key] = value;
  Json residuals = Json::object(), rows = Residuals(profile).ToJson();
  for (std::size_t i = 0; i < profile.residuals.size(); ++i) {
    residuals[profile.residuals[i].of] = rows[i];
  }
  return Text(Json{
      {"stepcast", 1},
      {"profile", path},
      {"name", profile.name},
      {"provenance", std::move(provenance)},
      {"fits", Fits(measured).ToJson()},
      {"collectives", Collectives(profile).ToJson()},
      {"interference", Interference(profile).ToJson()},
      {"residuals", std::move(residuals)},
      {"warnings", measured.warnings},
      {"run", {{"seconds", seconds}}},
  });
}

std::string ExecutionText(const scenario::Scenario& scenario,
                          const validate::Execution& execution) {
  return fmt::format("{}{}{}\n{}\n{}\n{}\n{}", Header(scenario, Facts(scenario)),
                     RunLine(execution), Machine(execution), StepTimes(execution),
                     TimeTable(execution.figures), CollectiveTable(execution.figures),
                     MemoryOfRanks(execution));
}

std::string ExecutionJson(const scenario::Scenario& scenario, const validate::Execution& execution,
                          double seconds) {
  const forecast::Forecast& figures = execution.figures;
  Json document = ExecutedJson(scenario, execution);
  document["step_time_s"] = JsonSeconds(figures.step_time);
  document["steps_s"] = StepsJson(execution);
  document["critical_rank"] = execution.critical_rank;
  AddStep(figures, document);
  document["parameters"] = scenario.model->all_parameter_count();
  document["time_s"] = TimeJson(figures.time);
  document["communication"] = CommunicationJson(figures);
  document["memory"] = Memory(figures.memory);
  document["ranks"] = Ranks(execution);
  Close(scenario, seconds, document);
  return Text(document);
}

std::vector<TraceProcess> MeasuredProcesses(const validate::Execution& execution) {
  std::vector<TraceProcess> processes;
  for (const validate::RankRun& run : execution.ranks) {
    processes.push_back({.id = run.place.rank,
                         .name = fmt::format("rank {} on {}", run.place.rank, run.place.host),
                         .program = &execution.program_of(run),
                         .timeline = &run.measurement.timeline,
                         .memory = memory::Record(execution.program_of(run),
                                                  run.measurement.timeline, memory::kUnlimited),
                         .marked_step = execution.steps[execution.typical].step});
  }
  return processes;
}

std::vector<TraceProcess> BothProcesses(const forecast::Run& forecast,
                                        const validate::Execution& execution) {
  std::vector<TraceProcess> processes;
  for (const forecast::ClassRun& own : forecast.classes) {
    processes.push_back(ForecastProcess(forecast, own, static_cast<int>(processes.size()),
                                        fmt::format("forecast: rank {}", own.first_rank)));
  }
  const std::vector<Time>& ends = forecast.classes.front().timeline.step_ends;
  const Time start = forecast.first_step == 0 ? Time() : ends[forecast.first_step - 1];
  const auto forecasts = static_cast<int>(processes.size());
  for (TraceProcess& process : MeasuredProcesses(execution)) {
    process.id += forecasts;
    process.name = "measured: " + process.name;
    process.shift = start - execution.steps[execution.typical].start;
    processes.push_back(std::move(process));
  }
  return processes;
}

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
