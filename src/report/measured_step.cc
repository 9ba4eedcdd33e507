#include "src/report/measured_step.h"

#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/quantity.h"
#include "src/report/table.h"

namespace stepcast::report {
namespace {

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
      return "all_reduce_perf on all nodes, beside stepcast collective";
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
      return "sizes that are no multiple of 8; TF32; the clock; software.torch";
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
                 : "stepcast collective beside nccl-tests; NCCL_DEBUG=INFO; links";
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

// Differences below a thousandth of the step are shown as one row.
constexpr double kLeastShown = 1e-3;

std::string CausesText(const MeasuredStep& step) {
  const validate::StepCauses& causes = *step.causes;
  std::string out = fmt::format("traced     step {} of rank {}; {} rank{} traced\n\n", step.number,
                                causes.rank, causes.ranks, causes.ranks == 1 ? "" : "s");
  Table table({{"cause", Align::kLeft},
               {"forecast ms"},
               {"measured ms"},
               {"more ms"},
               {"calls"},
               {"forecast"}});
  Time small;
  std::string next;
  for (const Cause& cause : causes.causes) {
    if (std::abs(cause.difference().seconds()) < kLeastShown * causes.measured.seconds()) {
      small += cause.difference();
      continue;
    }
    const bool counted = cause.forecast_calls + cause.measured_calls > 0;
    table.AddRow({NameOf(cause), Milliseconds(cause.forecast), Milliseconds(cause.measured),
                  Milliseconds(cause.difference()),
                  counted ? std::to_string(cause.measured_calls) : "",
                  counted ? std::to_string(cause.forecast_calls) : ""});
    if (cause.difference() > Time()) {
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
    out += fmt::format("rank {} waits least in collectives: the others wait for it\n",
                       *causes.slowest_rank);
  }
  for (const validate::KernelSum& kernel : causes.kernels) {
    out += fmt::format("{} ms in {} of {}\n", Milliseconds(kernel.total), kernel.calls, kernel.name);
  }
  for (const std::string& note : causes.notes) out += "note: " + note + "\n";
  return out + "\n";
}

Json CausesJson(const MeasuredStep& step) {
  if (!step.causes) return Json();
  const validate::StepCauses& causes = *step.causes;
  Json rows = Json::array();
  for (const Cause& cause : causes.causes) {
    rows.push_back({{"cause", Name(cause.kind)},
                    {"axis", cause.axis.empty() ? Json() : Json(cause.axis)},
                    {"forecast_s", JsonSeconds(cause.forecast)},
                    {"measured_s", JsonSeconds(cause.measured)},
                    {"difference_s", JsonSeconds(cause.difference())},
                    {"forecast_calls", cause.forecast_calls},
                    {"measured_calls", cause.measured_calls}});
  }
  Json kernels = Json::array();
  for (const validate::KernelSum& kernel : causes.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"calls", kernel.calls},
                       {"total_s", JsonSeconds(kernel.total)}});
  }
  return Json{{"step", step.number},
              {"rank", causes.rank},
              {"ranks", causes.ranks},
              {"causes", std::move(rows)},
              {"learned_s", JsonSeconds(causes.learned)},
              {"remainder_s", JsonSeconds(causes.remainder)},
              {"slowest_rank", causes.slowest_rank ? Json(*causes.slowest_rank) : Json()},
              {"longest_kernels", std::move(kernels)},
              {"notes", causes.notes}};
}

}  // namespace

std::string MeasuredStepText(const forecast::Forecast& forecast, const MeasuredStep& step) {
  std::string out = MeasuredLine(forecast, step);
  out += step.causes ? CausesText(step) : "\n";
  Table settings(
      {{"if the run has", Align::kLeft}, {"step ms"}, {"explains %"}, {"look at", Align::kLeft}});
  for (const TriedSetting& tried : step.settings) {
    settings.AddRow({fmt::format("{}", fmt::join(tried.set, ", ")), Milliseconds(tried.step_time),
                     Decimal(kHundred * tried.explains, 0), tried.next});
  }
  out += step.settings.empty() ? "no setting that was tried explains a tenth of the difference, "
                                 "and at most twice as much\n"
                               : settings.ToString();
  if (step.resources.empty()) return out;
  Table resources(
      {{"resource alone", Align::kLeft}, {"at % of its speed"}, {"measure", Align::kLeft}});
  for (const forecast::ExplainingSpeed& one : step.resources) {
    resources.AddRow({Name(one.resource),
                      one.speed ? Decimal(kHundred * *one.speed, 0) : "not enough",
                      NextOf(one.resource)});
  }
  return out + "\n" + resources.ToString();
}

Json MeasuredStepJson(const forecast::Forecast& forecast, const MeasuredStep& step) {
  Json settings = Json::array();
  for (const TriedSetting& tried : step.settings) {
    settings.push_back({{"set", tried.set},
                        {"step_time_s", JsonSeconds(tried.step_time)},
                        {"explains", tried.explains},
                        {"look_at", tried.next}});
  }
  Json resources = Json::array();
  for (const forecast::ExplainingSpeed& one : step.resources) {
    resources.push_back({{"resource", Name(one.resource)},
                         {"speed", one.speed ? Json(*one.speed) : Json()},
                         {"measure", NextOf(one.resource)}});
  }
  return Json{{"step_time_s", JsonSeconds(step.measured)},
              {"difference_s", JsonSeconds(step.measured - forecast.step_time)},
              {"in_range", step.in_range ? Json(*step.in_range) : Json()},
              {"traced", CausesJson(step)},
              {"settings", std::move(settings)},
              {"resources", std::move(resources)}};
}

}  // namespace stepcast::report
