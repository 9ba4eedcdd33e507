#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/answer.h"
#include "src/report/answers.h"
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
                     {"slowed by others ms", "slowed_s"}}};
  for (const forecast::PathShare& share : explanation.path) {
    table.Add({share.operation, WordOr(share.bound_by), share.time,
               Percent(share.time, explanation.path_length),
               Cell(share.slowed == Time() ? "" : Milliseconds(share.slowed),
                    JsonSeconds(share.slowed))});
  }
  return table;
}

std::string PathText(const forecast::Explanation& explanation) {
  Table table = Path(explanation).ToTable();
  table.AddRule();
  table.AddRow({"step", "", Milliseconds(explanation.path_length),
                Percent(explanation.path_length, explanation.path_length), ""});
  return table.ToString();
}

AnswerTable Exposed(const forecast::Explanation& explanation) {
  AnswerTable table{{{"exposed communication", "collective", kLeft},
                     {"group", "group", kLeft},
                     {"calls", "calls"},
                     {"ms", "exposed_s"},
                     {"% of step", ""},
                     {"most at", "largest", kLeft}}};
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

std::string ExposedText(const forecast::Explanation& explanation) {
  if (explanation.exposed.empty()) return "no communication is exposed\n";
  std::string out = Exposed(explanation).Text();
  const auto& speed = explanation.speed_that_hides;
  const std::string hidden = fmt::format("{:.0f} %", 100 * forecast::kHiddenPart);
  if (!speed) {
    out += fmt::format(
        "faster links cannot reduce exposed communication to {} of the step: the rest is latency, "
        "or collectives without computation that could hide them\n",
        hidden);
  } else if (*speed > 1) {
    out += fmt::format(
        "exposed communication falls to {} of the step if links are {:.3g} times "
        "as fast\n",
        hidden, *speed);
  }
  return out;
}

AnswerTable WhatIfs(const forecast::Explanation& explanation) {
  AnswerTable table{
      {{fmt::format("{:.0f} % faster", 100 * (forecast::kFaster - 1)), "faster", kLeft},
       {"", "factor"},
       {"step ms", "step_time_s"},
       {"gain %", ""}}};
  const Time step = explanation.forecast.step_time;
  for (const forecast::WhatIf& change : explanation.what_if) {
    table.Add({Name(change.resource), forecast::kFaster, change.step_time,
               Decimal(100 * (1 - change.step_time.seconds() / step.seconds()), 2)});
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

std::string MemoryText(const forecast::Explanation& explanation) {
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
  return contents.ToString() + "\n" + layers.ToString();
}

using forecast::MachineResource;

// What to measure next.
const char* NextOf(MachineResource resource) {
  switch (resource) {
    case MachineResource::kCompute:
      return "nvidia-smi -q -d CLOCK,POWER,PERFORMANCE";
    case MachineResource::kDeviceMemory:
      return "stepcast calibrate --backend cuda --quick";
    case MachineResource::kScaleUp:
      return "all_reduce_perf on the GPUs of a node; nvidia-smi nvlink -s";
    case MachineResource::kNetwork:
      return "all_reduce_perf on all nodes, compared with stepcast collective";
    case MachineResource::kHostLink:
      return "nvidia-smi -q: GPU Link Info";
    case MachineResource::kCollectiveLatency:
      return "all_reduce_perf -b 8 -e 64K; NCCL_DEBUG=INFO";
    case MachineResource::kLaunch:
      break;
  }
  return "a trace: gaps between kernels; CPU load and clock";
}

std::string MeasuredLine(const forecast::Forecast& forecast, const MeasuredStep& step) {
  const double part = step.measured.seconds() / forecast.step_time.seconds() - 1;
  const std::string text =
      fmt::format("measured   {}, {} % {} than the forecast", FormatTime(step.measured),
                  PerCent(std::abs(part)), part < 0 ? "less" : "more");
  if (!step.in_range) return text + "; the profile states no range\n";
  const forecast::TimeRange& range = *forecast.step_time_range;
  return text + fmt::format("; {} the stated range, {} to {}\n",
                            *step.in_range ? "inside" : "outside", FormatTime(range.low),
                            FormatTime(range.high));
}

using validate::Cause;
using validate::CauseKind;

// Where to look.
const char* NextOf(const Cause& cause) {
  switch (cause.kind) {
    case CauseKind::kProducts:
      return "sizes that are not multiples of 8; TF32; the clock; software.torch";
    case CauseKind::kAttention:
      return "the kernel's name: training.attention";
    case CauseKind::kOptimizer:
      return "training.optimizer_implementation";
    case CauseKind::kElementwise:
      return "training.compile, norm, rotary, loss; more kernels than forecast";
    case CauseKind::kOtherKernels:
      return "the layers' times in the model file";
    case CauseKind::kCommunication:
      return cause.measured_calls > cause.forecast_calls
                 ? "data_parallel.bucket_size: more collectives than forecast"
                 : "stepcast collective compared with nccl-tests; NCCL_DEBUG=INFO; links";
    case CauseKind::kCopies:
      return "offloading; pinned memory";
    case CauseKind::kImbalance:
      return "the slow rank: its clock, its node, its share of tokens";
    case CauseKind::kPipelineBubble:
      return "parallelism.stage_layers; a slow stage";
    case CauseKind::kLaunches:
      return "CPU load and clock; .item(); training.compile; CUDA graphs";
    case CauseKind::kDataLoading:
      return "training.data_loading: workers, prefetch";
    case CauseKind::kAllocatorFlushes:
      return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; a smaller micro-batch";
  }
  return "";
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

std::string CausesText(const MeasuredStep& step) {
  const validate::StepCauses& causes = *step.causes;
  std::string out = fmt::format("traced     step {} of rank {}; {} rank{} traced\n\n", step.number,
                                causes.rank, causes.ranks, causes.ranks == 1 ? "" : "s");
  Table table = CauseRows(causes, false).ToTable();
  Time small;
  std::string next;
  for (const Cause& cause : causes.causes) {
    if (IsSmall(cause, causes)) {
      small += cause.difference();
    } else if (cause.difference() > Time()) {
      next += fmt::format("{}: look at {}\n", NameOf(cause), NextOf(cause));
    }
  }
  const auto plain = [&](const char* name, Time time) {
    table.AddRow({name, "", "", Milliseconds(time), "", ""});
  };
  if (small != Time()) plain("smaller causes", small);
  if (causes.learned != Time()) plain("learned from runs", Time() - causes.learned);
  plain("remainder", causes.remainder);
  plain("difference", causes.difference());
  out += table.ToString() + "\n" + next;
  if (causes.slowest_rank) {
    out += fmt::format("rank {} waits least in collectives, so the other ranks wait for it\n",
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
  Json kernels = Json::array();
  for (const validate::KernelSum& kernel : causes.kernels) {
    kernels.push_back(
        {{"name", kernel.name}, {"calls", kernel.calls}, {"total_s", JsonSeconds(kernel.total)}});
  }
  return Json{{"step", step.number},
              {"rank", causes.rank},
              {"ranks", causes.ranks},
              {"causes", CauseRows(causes, true).ToJson()},
              {"learned_s", JsonSeconds(causes.learned)},
              {"remainder_s", JsonSeconds(causes.remainder)},
              {"slowest_rank", causes.slowest_rank ? Json(*causes.slowest_rank) : Json()},
              {"longest_kernels", std::move(kernels)},
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
  AnswerTable table{{{"resource alone", "resource", kLeft},
                     {"at % of its speed", "speed"},
                     {"measure", "measure", kLeft}}};
  for (const forecast::ExplainingSpeed& one : step.resources) {
    table.Add({Name(one.resource),
               one.speed ? InPerCent(*one.speed, 0) : Cell("not enough", Json()),
               NextOf(one.resource)});
  }
  return table;
}

std::string MeasuredStepText(const forecast::Forecast& forecast, const MeasuredStep& step) {
  std::string out = MeasuredLine(forecast, step);
  out += step.causes ? CausesText(step) : "\n";
  out += step.settings.empty() ? "no setting that was tried explains between a tenth and twice "
                                 "the difference\n"
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
  out += "\n" + PathText(explanation) + "\n" + ExposedText(explanation);
  if (!explanation.what_if.empty()) out += "\n" + WhatIfs(explanation).Text();
  out += "\n" + MemoryText(explanation) + "\n";
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

}  // namespace stepcast::report
