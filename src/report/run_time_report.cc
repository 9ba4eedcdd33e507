#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/bytes.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/answers.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/step_figures.h"
#include "src/report/training_report.h"

namespace stepcast::report {

using enum Align;

using forecast::Published;
using forecast::WholeRun;

namespace {

std::string TimeText(double seconds) {
  constexpr double kShort = 2 * forecast::kMinute;
  if (!std::isfinite(seconds)) return "infinite";
  if (seconds < kShort || seconds >= forecast::kHour) return Duration(seconds);
  return Decimal(seconds / forecast::kMinute, 1) + " min";
}

struct TimePart {
  const char* name;
  const char* key;
  double share;
};

std::vector<TimePart> PartsOf(const forecast::TimeShares& shares) {
  return {{"effective training", "work", shares.work},
          {"saving checkpoints", "saving", shares.saving},
          {"recovering from failures", "recovery", shares.recovery},
          {"repeated work", "rework", shares.rework},
          {"waiting for repairs", "waiting", shares.waiting}};
}

struct InputRow {
  const char* name;
  const char* key;
  Published value;
  const char* source;
  bool rate = false;  // bytes per second instead of seconds
};

std::vector<InputRow> RowsOf(const forecast::RunInputs& inputs) {
  std::vector<InputRow> rows = {
      {"time between failures of a node", "node_mtbf_s", inputs.node_mtbf, "Llama 3; RSC"},
      {"time between job failures that are not node failures", "job_mtbf_s", inputs.job_mtbf,
       "Llama 3; BLOOM, OPT"},
      {"restart", "restart_s", inputs.restart, "RSC"},
      {"storage of the job", "storage_bytes_per_s", inputs.storage, "BLOOM; ByteCheckpoint", true}};
  if (inputs.detection.worst > 0) {
    rows.insert(rows.begin() + 2, {"detection", "detection_s", inputs.detection, "BLOOM"});
  }
  return rows;
}

std::string InputText(const InputRow& row, double value) {
  if (row.rate) {
    return FormatBandwidth(Bandwidth::BytesPerSecond(std::llround(value)));
  }
  return std::isfinite(value) ? TimeText(value) : "never";
}

AnswerTable InputTable(const forecast::RunInputs& inputs) {
  AnswerTable table{{{"depends on", "", kLeft},
                     {"", "name"},
                     {"likely", "likely"},
                     {"best", "best"},
                     {"worst", "worst"},
                     {"", "given"},
                     {"source", "", kLeft}}};
  for (const InputRow& row : RowsOf(inputs)) {
    const auto& [best, likely, worst, given] = row.value;
    table.Add({row.name, row.key, Cell(InputText(row, likely), likely),
               Cell(given ? "" : InputText(row, best), best),
               Cell(given ? "" : InputText(row, worst), worst), given,
               given ? "given" : row.source});
  }
  return table;
}

Table TimeTable(const WholeRun& run) {
  const double seconds = run.Seconds();
  Table table({{"time breakdown of the run", kLeft}, {"time"}, {"%"}});
  for (const TimePart& part : PartsOf(run.time.shares)) {
    table.AddRow({part.name, TimeText(part.share * seconds), Decimal(kHundred * part.share, 2)});
  }
  table.AddRule();
  table.AddRow({"run", TimeText(seconds), Decimal(kHundred, 2)});
  return table;
}

double StepsOf(const WholeRun& run) {
  return std::ceil(run.target.tokens / static_cast<double>(TrainedStepOf(run.step).tokens));
}

std::string StepsText(const WholeRun& run) {
  const double steps = StepsOf(run);
  return steps == 1 ? "1 step" : Decimal(steps, 0) + " steps";
}

std::string FailuresText(const WholeRun& run) {
  constexpr double kFew = 10;
  const double expected = run.time.expected_failures;
  return Decimal(expected, expected < kFew ? 2 : 0);
}

std::string FailuresLine(const WholeRun& run) {
  const forecast::Failures& failures = run.time.failures;
  if (failures.rate == 0) return "failures   none\n";
  return fmt::format(
      "failures   one failure every {} on average, {} failures in the run; each recovery takes "
      "{}\n",
      TimeText(1 / failures.rate), FailuresText(run), TimeText(failures.recovery));
}

std::string CheckpointLines(const WholeRun& run) {
  const forecast::RunTime& time = run.time;
  std::string text =
      fmt::format("saves      {}, {}: training pauses for {}{}\n",
                  FormatBytes(Bytes(std::llround(run.run.state))), run.run.async ? "async" : "sync",
                  TimeText(time.cost.blocking),
                  run.run.async ? fmt::format("; the save is complete {} after the pause, and a "
                                              "restart cannot use the checkpoint earlier",
                                              TimeText(time.cost.background))
                                : "");
  text += fmt::format("interval   {}", TimeText(time.interval));
  text += run.run.interval ? fmt::format("; the best interval is {}", TimeText(time.best_interval))
                           : ", which is the best interval";
  if (time.young_and_daly) {
    text += fmt::format(" (Young {}, Daly {})", TimeText(time.young_and_daly->first),
                        TimeText(time.young_and_daly->second));
  }
  return text + "\n";
}

std::string EnergyLine(const WholeRun& run) {
  if (run.GpuWatts() == 0)
    return "energy     unknown, because the GPU's data sheet specifies no power\n";
  return fmt::format(
      "energy     {}{}: GPUs {} at {} W{}, PUE {:g}{}\n", run.power.at_most ? "at most " : "",
      EnergyText(run.Energy()), EnergyText(run.GpuEnergy()), Decimal(run.GpuWatts(), 0),
      run.node_watts > 0 ? fmt::format(", {:g} W for each node without its GPUs", run.node_watts)
                         : "",
      run.pue, run.pue_assumed ? " (assumed)" : "");
}

}  // namespace

std::string RunTimeText(const scenario::Scenario& scenario, const WholeRun& run) {
  const forecast::TrainedStep step = TrainedStepOf(run.step);
  const auto [shortest, longest] = run.SecondsRange();
  const auto [least, most] = run.time.work_range;
  std::string out = Header(scenario, ForecastFacts(scenario)) + "\n";
  out += fmt::format("memory     {}\n", MemorySentence(run.step.memory));
  out += fmt::format("step time  {}, {}\n", FormatTime(run.step.step_time), StepsText(run));
  out += TrainingText(run.target, step);
  out += fmt::format("range      {} to {}\n", TimeText(shortest), TimeText(longest));
  out += fmt::format("effective  {} % of the time ({} to {} %)\n",
                     Decimal(kHundred * run.time.shares.work, 1), Decimal(kHundred * least, 1),
                     Decimal(kHundred * most, 1));
  out += EnergyLine(run);
  out += FailuresLine(run) + CheckpointLines(run) + "\n";
  out += TimeTable(run).ToString() + "\n";
  out += InputTable(run.inputs).Text();
  return out;
}

std::string RunTimeJson(const scenario::Scenario& scenario, const WholeRun& run, double seconds) {
  const forecast::TrainedStep step = TrainedStepOf(run.step);
  const forecast::RunTime& time = run.time;
  const auto [shortest, longest] = run.SecondsRange();
  Json document{{"stepcast", 1},
                {"scenario", scenario.name},
                {"step_time_s", JsonSeconds(run.step.step_time)},
                {"gpus", step.gpus},
                {"steps", std::llround(StepsOf(run))},
                {"memory", MemoryJson(run.step.memory)},
                {"training", TargetJson(run.target)}};
  AddTraining(run.target, step, document);
  document["training_range_s"] = {shortest, longest};
  document["effective"] = time.shares.work;
  document["effective_range"] = {time.work_range.first, time.work_range.second};
  Json shares = Json::object();
  for (const TimePart& part : PartsOf(time.shares)) shares[part.key] = part.share;
  document["shares"] = std::move(shares);
  document["failures"] = {{"rate_per_s", time.failures.rate},
                          {"recovery_s", time.failures.recovery},
                          {"expected", time.expected_failures}};
  const auto& laws = time.young_and_daly;
  document["checkpoint"] = {{"bytes", std::llround(run.run.state)},
                            {"mode", run.run.async ? "async" : "sync"},
                            {"blocking_s", time.cost.blocking},
                            {"background_s", time.cost.background},
                            {"interval_s", time.interval},
                            {"best_interval_s", time.best_interval},
                            {"young_interval_s", laws ? Json(laws->first) : Json()},
                            {"daly_interval_s", laws ? Json(laws->second) : Json()}};
  document["energy"] = {{"gpu_watts", run.GpuWatts()},
                        {"at_most", run.power.at_most},
                        {"gpus_kwh", run.GpuEnergy() / kJoulesPerKilowattHour},
                        {"pue", run.pue},
                        {"kwh", run.Energy() / kJoulesPerKilowattHour}};
  document["inputs"] = InputTable(run.inputs).ToJson();
  document["warnings"] = scenario.warnings;
  document["run"] = {{"seconds", seconds}};
  return Text(document);
}

namespace {

PageSection TimeSection(const WholeRun& run) {
  PageSection section{.heading = "Time breakdown of the run"};
  section.paragraphs = {
      "After a failure, the job recovers and repeats all work since the last checkpoint. The parts "
      "add up to the duration of the run, and are exact if failures have a constant rate."};
  const double days = run.Seconds() / forecast::kDay;
  ChartData data;
  std::vector<std::string> names;
  for (const TimePart& part : PartsOf(run.time.shares)) {
    names.emplace_back(part.name);
    data.Word("bar", "run");
    data.Word("part", part.name);
    data.Number("value", Rounded(part.share * days));
    data.Number("share", Rounded(kHundred * part.share));
  }
  section.chart =
      StackedBars("Time breakdown of the run, as one stacked bar; the table below lists its parts",
                  "days", std::move(data), PaletteOf(names), 1);
  section.tables.push_back({.caption = "Parts of the run", .table = TimeTable(run)});
  return section;
}

PageSection InputSection(const WholeRun& run) {
  PageSection section{.heading = "Effects on the effective time"};
  section.paragraphs = {
      "The table shows how the effective time changes if a quantity has its best or worst value, "
      "and because failures are random. The range of the effective time is the square root of the "
      "sum of the squares of these changes."};
  section.tables.push_back({.caption = "Inputs", .table = InputTable(run.inputs).ToTable()});
  return section;
}

}  // namespace

std::string RunTimePage(const scenario::Scenario& scenario, const WholeRun& run) {
  const auto [shortest, longest] = run.SecondsRange();
  const auto [least, most] = run.time.work_range;
  const double seconds = run.Seconds();
  Page page = PageOf(scenario, "Forecast of a training run");
  page.asked.emplace_back("run", TargetText(run.target));
  page.verdict = fmt::format("The step {}.", MemorySentence(run.step.memory));
  page.tone = ToneOf(run.step.memory.verdict());
  page.answer = {
      {"time", TimeText(seconds), fmt::format("{} to {}", TimeText(shortest), TimeText(longest))},
      {"effective", Decimal(kHundred * run.time.shares.work, 1) + " %",
       fmt::format("{} to {} %", Decimal(kHundred * least, 1), Decimal(kHundred * most, 1))},
      {"failures", FailuresText(run),
       fmt::format("each failure takes {}, plus repeated work",
                   TimeText(run.time.failures.recovery))},
      {"checkpoint interval", TimeText(run.time.interval),
       run.run.interval ? fmt::format("the best interval is {}", TimeText(run.time.best_interval))
                        : "the best interval"}};
  page.sections = {TimeSection(run), InputSection(run)};
  return PageHtml(page);
}

}  // namespace stepcast::report
