#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/answers.h"
#include "src/report/charts.h"
#include "src/report/page.h"
#include "src/report/page_figures.h"
#include "src/report/step_figures.h"

namespace stepcast::report {
namespace {

using enum Align;

// The most rows in the two tables of memory; the rest is summed.
constexpr std::size_t kContents = 12, kLayers = 6;

AnswerTable Path(const forecast::Explanation& explanation) {
  AnswerTable table{{{"on the critical path", "operation", kLeft},
                     {"bound by", "bound_by", kLeft},
                     {"ms", "time_s"},
                     {"%", ""},
                     {"due to contention ms", "slowed_s"}}};
  for (const forecast::PathShare& share : explanation.path) {
    table.Add({share.operation, WordOr(share.bound_by), share.time,
               Percent(share.time, explanation.path_length),
               Cell(share.slowed == Time() ? "" : Milliseconds(share.slowed),
                    JsonSeconds(share.slowed))});
  }
  return table;
}

Table PathTable(const forecast::Explanation& explanation) {
  Table table = Path(explanation).ToTable();
  table.AddRule();
  table.AddRow({"step", "", Milliseconds(explanation.path_length),
                Percent(explanation.path_length, explanation.path_length), ""});
  return table;
}

AnswerTable Exposed(const forecast::Explanation& explanation) {
  AnswerTable table{{{"exposed communication", "collective", kLeft},
                     {"group", "group", kLeft},
                     {"calls", "calls"},
                     {"ms", "exposed_s"},
                     {"% of step", ""},
                     {"mostly in", "largest", kLeft}}};
  for (const forecast::ExposedCollective& collective : explanation.exposed) {
    Cell largest("", Json::array());
    for (const auto& [label, time] : collective.largest) {
      largest.text +=
          fmt::format("{}{} ({})", largest.text.empty() ? "" : ", ", label, FormatTime(time));
      largest.value.push_back({{"label", label}, {"exposed_s", JsonSeconds(time)}});
    }
    table.Add({Name(collective.collective), collective.group, collective.calls, collective.exposed,
               Percent(collective.exposed, explanation.forecast.step_time), std::move(largest)});
  }
  return table;
}

// How fast links must be to hide exposed communication, as a line; may be empty.
std::string HidingText(const forecast::Explanation& explanation) {
  if (explanation.exposed.empty()) return "no communication is exposed\n";
  const auto& speed = explanation.speed_that_hides;
  const std::string hidden = fmt::format("{:.0f} %", 100 * forecast::kHiddenPart);
  if (!speed) {
    return fmt::format(
        "faster links cannot reduce exposed communication to {} of the step: the remaining time is "
        "latency, or collectives do not overlap computation\n",
        hidden);
  }
  if (*speed <= 1) return "";
  return fmt::format(
      "exposed communication falls to {} of the step if links are {:.3g} times "
      "as fast\n",
      hidden, *speed);
}

std::string ExposedText(const forecast::Explanation& explanation) {
  return (explanation.exposed.empty() ? "" : Exposed(explanation).Text()) + HidingText(explanation);
}

// The part of the step that the faster resource saves.
double GainOf(const forecast::WhatIf& change, const forecast::Explanation& explanation) {
  return 1 - change.step_time.seconds() / explanation.forecast.step_time.seconds();
}

AnswerTable WhatIfs(const forecast::Explanation& explanation) {
  AnswerTable table{
      {{fmt::format("{:.0f} % faster", 100 * (forecast::kFaster - 1)), "faster", kLeft},
       {"", "factor"},
       {"step ms", "step_time_s"},
       {"gain %", ""}}};
  for (const forecast::WhatIf& change : explanation.what_if) {
    table.Add({Name(change.resource), forecast::kFaster, change.step_time,
               Decimal(100 * GainOf(change, explanation), 2)});
  }
  return table;
}

AnswerTable Contents(const forecast::Explanation& explanation) {
  const ByteUnit unit = UnitFor(explanation.forecast.memory.peak);
  AnswerTable table{{{"in memory at the peak", "name", kLeft},
                     {"category", "category", kLeft},
                     {"count", "count"},
                     {unit.name, "bytes"}}};
  for (const forecast::PeakContent& content : explanation.contents) {
    table.Add({content.name, Name(content.category), content.count, Amount(unit, content.total)});
  }
  return table;
}

AnswerTable Layers(const forecast::Explanation& explanation) {
  const ByteUnit unit = UnitFor(explanation.forecast.memory.peak);
  AnswerTable table{{{"by layer or bucket", "layer", kLeft}, {unit.name, "bytes"}}};
  for (const forecast::LayerMemory& layer : explanation.layers) {
    table.Add({layer.layer, Amount(unit, layer.total)});
  }
  return table;
}

// The largest contents of memory at the peak, and the largest layers, each with the others' sum.
std::pair<Table, Table> MemoryTables(const forecast::Explanation& explanation) {
  const Bytes peak = explanation.forecast.memory.peak;
  const ByteUnit unit = UnitFor(peak);
  // The part of the peak that is in none of the first `most` rows.
  const auto others = [&](const auto& rows, std::size_t most) {
    Bytes left = peak;
    for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) left -= rows[i].total;
    return left;
  };
  Table contents = Contents(explanation).ToTable(kContents);
  if (const Bytes left = others(explanation.contents, kContents); left > Bytes(0)) {
    contents.AddRow({"all others", "", "", In(unit, left)});
  }
  contents.AddRule();
  contents.AddRow({"peak allocated", "", "", In(unit, peak)});
  Table layers = Layers(explanation).ToTable(kLayers);
  if (const Bytes left = others(explanation.layers, kLayers); left > Bytes(0)) {
    const std::size_t count = explanation.layers.size();
    layers.AddRow({fmt::format("{} others", count - std::min(kLayers, count)), In(unit, left)});
  }
  return {std::move(contents), std::move(layers)};
}

// What to measure if a resource may be slow, in the order of MachineResource.
constexpr const char* kNextOfResource[] = {
    "nvidia-smi -q -d CLOCK,POWER,PERFORMANCE",
    "stepcast calibrate --backend cuda --quick",
    "all_reduce_perf on the GPUs of a node; nvidia-smi nvlink -s",
    "all_reduce_perf on all nodes, compared with stepcast collective",
    "nvidia-smi -q: GPU Link Info",
    "all_reduce_perf -b 8 -e 64K; NCCL_DEBUG=INFO",
    "a trace: gaps between kernels; CPU load and clock"};
static_assert(std::size(kNextOfResource) == std::size(forecast::kMachineResources));

std::string MeasuredLine(const forecast::Forecast& forecast, const MeasuredStep& step) {
  const double part = step.measured.seconds() / forecast.step_time.seconds() - 1;
  const std::string text =
      fmt::format("measured   {}, {} % {} than the forecast", FormatTime(step.measured),
                  PerCent(std::abs(part)), part < 0 ? "less" : "more");
  if (!step.in_range) return text + "; the calibration profile has no range for step times\n";
  const forecast::TimeRange& range = *forecast.step_time_range;
  return text + fmt::format("; the time is {} the range of the forecast, {} to {}\n",
                            *step.in_range ? "inside" : "outside", FormatTime(range.low),
                            FormatTime(range.high));
}

using validate::Cause;
using validate::CauseKind;

// What to look at if a cause makes a step longer, in the order of CauseKind.
constexpr const char* kNextOfCause[] = {
    "sizes that are not multiples of 8; TF32; the clock; software.torch",
    "training.attention; the name of the attention kernel",
    "training.optimizer_implementation",
    "training.compile, training.norm, training.rotary, training.loss; more kernels than forecast",
    "the times of layers in the model file",
    "nccl-tests compared with stepcast collective; NCCL_DEBUG=INFO; the links",
    "offloading; pinned memory",
    "the clock, the node and the number of tokens of the slow rank",
    "parallelism.stage_layers; whether one stage is slow",
    "CPU load and clock; .item(); training.compile; CUDA graphs",
    "training.data_loading: workers and prefetched batches",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; a smaller micro-batch"};
static_assert(std::size(kNextOfCause) ==
              static_cast<std::size_t>(CauseKind::kAllocatorFlushes) + 1);

const char* NextOf(const Cause& cause) {
  return cause.kind == CauseKind::kCommunication && cause.measured_calls > cause.forecast_calls
             ? "data_parallel.bucket_size: more collectives than forecast"
             : kNextOfCause[static_cast<std::size_t>(cause.kind)];
}

std::string NameOf(const Cause& cause) {
  return cause.axis.empty() ? Name(cause.kind)
                            : fmt::format("{}, {}", Name(cause.kind), cause.axis);
}

// Small differences are shown as one row.
bool IsSmall(const Cause& cause, const validate::StepCauses& causes) {
  constexpr double kLeastShown = 1e-3;  // of the step
  return std::abs(cause.difference().seconds()) < kLeastShown * causes.measured.seconds();
}

// Without `all`, only causes of a difference that is shown.
AnswerTable CauseRows(const validate::StepCauses& causes, bool all) {
  AnswerTable table{{{"cause", "", kLeft},
                     {"", "cause"},
                     {"", "axis"},
                     {"forecast ms", "forecast_s"},
                     {"measured ms", "measured_s"},
                     {"more ms", "difference_s"},
                     {"calls", ""},
                     {"forecast", "forecast_calls"},
                     {"", "measured_calls"}}};
  for (const Cause& cause : causes.causes) {
    if (!all && IsSmall(cause, causes)) continue;
    const auto calls = [&](std::int64_t number) {
      const bool counted = cause.forecast_calls + cause.measured_calls > 0;
      return Cell(counted ? std::to_string(number) : "", number);
    };
    table.Add({NameOf(cause), Name(cause.kind), WordOr(cause.axis), cause.forecast, cause.measured,
               cause.difference(), calls(cause.measured_calls), calls(cause.forecast_calls),
               calls(cause.measured_calls)});
  }
  return table;
}

// The causes, and at the end what is in none of them; they add up to the difference.
Table CauseTable(const validate::StepCauses& causes) {
  Table table = CauseRows(causes, false).ToTable();
  Time small;
  for (const Cause& cause : causes.causes) {
    if (IsSmall(cause, causes)) small += cause.difference();
  }
  const auto plain = [&](const char* name, Time time) {
    table.AddRow({name, "", "", Milliseconds(time), "", ""});
  };
  if (small != Time()) plain("smaller causes", small);
  if (causes.learned != Time()) plain("learned from runs", Time() - causes.learned);
  plain("remainder", causes.remainder);
  plain("difference", causes.difference());
  return table;
}

std::string CausesText(const MeasuredStep& step) {
  const validate::StepCauses& causes = *step.causes;
  std::string out =
      fmt::format("traced     step {} of rank {}; traces of {} rank{}\n\n", step.number,
                  causes.rank, causes.ranks, causes.ranks == 1 ? "" : "s");
  out += CauseTable(causes).ToString() + "\n";
  for (const Cause& cause : causes.causes) {
    if (!IsSmall(cause, causes) && cause.difference() > Time()) {
      out += fmt::format("{}: look at {}\n", NameOf(cause), NextOf(cause));
    }
  }
  if (causes.slowest_rank) {
    out += fmt::format(
        "rank {} waits less in collectives than any other rank, so all other ranks wait for this "
        "rank\n",
        *causes.slowest_rank);
  }
  for (const validate::KernelSum& kernel : causes.kernels) {
    out +=
        fmt::format("{} ms in {} of {}\n", Milliseconds(kernel.total), kernel.calls, kernel.name);
  }
  for (const std::string& note : causes.notes) out += "note: " + note + "\n";
  return out + "\n";
}

Json CausesJson(const MeasuredStep& step) {
  if (!step.causes) return Json();
  const validate::StepCauses& causes = *step.causes;
  AnswerTable kernels{Keys("name calls total_s")};
  for (const validate::KernelSum& kernel : causes.kernels) {
    kernels.Add({kernel.name, kernel.calls, kernel.total});
  }
  return Json{{"step", step.number},
              {"rank", causes.rank},
              {"ranks", causes.ranks},
              {"causes", CauseRows(causes, true).ToJson()},
              {"learned_s", JsonSeconds(causes.learned)},
              {"remainder_s", JsonSeconds(causes.remainder)},
              {"slowest_rank", causes.slowest_rank ? Json(*causes.slowest_rank) : Json()},
              {"longest_kernels", kernels.ToJson()},
              {"notes", causes.notes}};
}

AnswerTable Settings(const MeasuredStep& step) {
  AnswerTable table{{{"if the run has", "set", kLeft},
                     {"step ms", "step_time_s"},
                     {"explains %", "explains"},
                     {"look at", "look_at", kLeft}}};
  for (const TriedSetting& tried : step.settings) {
    table.Add({Cell(fmt::format("{}", fmt::join(tried.set, ", ")), tried.set), tried.step_time,
               InPerCent(tried.explains, 0), tried.next});
  }
  return table;
}

AnswerTable Resources(const MeasuredStep& step) {
  AnswerTable table{{{"slower resource", "resource", kLeft},
                     {"at % of full speed", "speed"},
                     {"measure", "measure", kLeft}}};
  for (const forecast::ExplainingSpeed& one : step.resources) {
    table.Add({Name(one.resource),
               one.speed ? InPerCent(*one.speed, 0) : Cell("not enough", Json()),
               kNextOfResource[static_cast<std::size_t>(one.resource)]});
  }
  return table;
}

std::string MeasuredStepText(const forecast::Forecast& forecast, const MeasuredStep& step) {
  std::string out = MeasuredLine(forecast, step);
  out += step.causes ? CausesText(step) : "\n";
  out += step.settings.empty()
             ? "none of the tried settings explains 10 % to 200 % of the difference\n"
             : Settings(step).Text();
  return step.resources.empty() ? out : out + "\n" + Resources(step).Text();
}

Json MeasuredStepJson(const forecast::Forecast& forecast, const MeasuredStep& step) {
  return Json{{"step_time_s", JsonSeconds(step.measured)},
              {"difference_s", JsonSeconds(step.measured - forecast.step_time)},
              {"in_range", step.in_range ? Json(*step.in_range) : Json()},
              {"traced", CausesJson(step)},
              {"settings", Settings(step).ToJson()},
              {"resources", Resources(step).ToJson()}};
}

}  // namespace

std::string ExplainText(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, const MeasuredStep* measured) {
  std::string out = Header(scenario, ForecastFacts(scenario)) + "\n";
  out += fmt::format("step time  {}\n", FormatTime(explanation.forecast.step_time));
  if (measured != nullptr) out += MeasuredStepText(explanation.forecast, *measured);
  out += "\n" + PathTable(explanation).ToString() + "\n" + ExposedText(explanation);
  if (!explanation.what_if.empty()) out += "\n" + WhatIfs(explanation).Text();
  const auto [contents, layers] = MemoryTables(explanation);
  out += "\n" + contents.ToString() + "\n" + layers.ToString() + "\n";
  return out + MemorySentence(explanation.forecast.memory) + "\n";
}

std::string ExplainJson(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, double seconds,
                        const MeasuredStep* measured) {
  const forecast::Forecast& forecast = explanation.forecast;
  const auto& speed = explanation.speed_that_hides;
  return Text(Json{
      {"stepcast", 1},
      {"scenario", scenario.name},
      {"step_time_s", JsonSeconds(forecast.step_time)},
      {"measured", measured == nullptr ? Json() : MeasuredStepJson(forecast, *measured)},
      {"time_s", TimeJson(forecast.time)},
      {"critical_path", Path(explanation).ToJson()},
      {"exposed_communication",
       {{"total_s", JsonSeconds(forecast.time.exposed_communication)},
        {"collectives", Exposed(explanation).ToJson()},
        {"hidden_part", forecast::kHiddenPart},
        {"hidden_when_faster_by", speed ? Json(*speed) : Json()}}},
      {"what_if", WhatIfs(explanation).ToJson()},
      {"memory", MemoryJson(forecast.memory)},
      {"memory_at_peak",
       {{"contents", Contents(explanation).ToJson()}, {"layers", Layers(explanation).ToJson()}}},
      {"resolved", ToJson(scenario.resolved)},
      {"warnings", scenario.warnings},
      {"run", {{"seconds", seconds}}},
  });
}

namespace {

PageSection GainSection(const forecast::Explanation& explanation) {
  PageSection section{.heading = "Gain from faster resources"};
  section.paragraphs = {"Each bar shows a new simulation of the step with one faster resource."};
  const AnswerTable table = WhatIfs(explanation);
  ChartData data;
  for (const forecast::WhatIf& change : explanation.what_if) {
    data.Word("bar", Name(change.resource));
    data.Word("part", "shorter step");
    data.Number("value", Rounded(std::max(0.0, kHundred * GainOf(change, explanation))));
  }
  section.chart = StackedBars("The percentage of the step that each faster resource saves, as bars",
                              "% of the step", std::move(data), {{"shorter step", "--c0"}},
                              static_cast<int>(table.rows.size()));
  section.tables.push_back({.caption = table.columns.front().heading, .table = table.ToTable()});
  return section;
}

PageSection MeasuredSection(const forecast::Forecast& forecast, const MeasuredStep& step) {
  PageSection section{.heading = "The measured step"};
  section.paragraphs = {MeasuredLine(forecast, step)};
  if (step.causes) {
    section.tables.push_back(
        {.caption = "The difference by cause", .table = CauseTable(*step.causes)});
    section.notes = step.causes->notes;
  }
  if (!step.settings.empty()) {
    section.tables.push_back(
        {.caption = "Settings that explain the difference", .table = Settings(step).ToTable()});
  }
  if (!step.resources.empty()) {
    section.tables.push_back(
        {.caption = "Resources that explain the difference", .table = Resources(step).ToTable()});
  }
  return section;
}

}  // namespace

std::string ExplainPage(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, const MeasuredStep* measured) {
  const forecast::Forecast& forecast = explanation.forecast;
  Page page = PageOf(scenario, "Explanation of one training step");
  page.verdict = fmt::format("A step takes {}.", FormatTime(forecast.step_time));
  page.answer = AnswerOf(forecast);
  if (measured != nullptr) page.sections.push_back(MeasuredSection(forecast, *measured));
  if (!explanation.what_if.empty()) {
    const forecast::WhatIf& most = explanation.what_if.front();
    page.verdict += fmt::format(
        " The resource that limits the step most is {}. If this resource is {:.0f} % faster, the "
        "step is {} % shorter.",
        Name(most.resource), kHundred * (forecast::kFaster - 1),
        Decimal(kHundred * GainOf(most, explanation), 2));
    page.sections.push_back(GainSection(explanation));
  }
  page.sections.push_back(BreakdownSection(forecast));
  page.sections.push_back(
      {.heading = "Critical path",
       .paragraphs =
           {"The step becomes shorter only if an operation on the critical path becomes shorter."},
       .tables = {{.caption = "Time on the critical path by operation",
                   .table = PathTable(explanation)}}});
  PageSection exposed{.heading = "Exposed communication"};
  if (const std::string text = HidingText(explanation); !text.empty()) exposed.notes = {text};
  if (!explanation.exposed.empty()) {
    exposed.tables.push_back({.caption = "By collective", .table = Exposed(explanation).ToTable()});
  }
  page.sections.push_back(std::move(exposed));
  auto [contents, layers] = MemoryTables(explanation);
  page.sections.push_back(
      {.heading = "Memory at the peak",
       .paragraphs = {fmt::format("The step {}.", MemorySentence(forecast.memory))},
       .tables = {{.caption = "By content", .table = std::move(contents)},
                  {.caption = "By layer or bucket", .table = std::move(layers)}}});
  return PageHtml(page);
}

}  // namespace stepcast::report
