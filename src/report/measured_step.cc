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

}  // namespace

std::string MeasuredStepText(const forecast::Forecast& forecast, const MeasuredStep& step) {
  std::string out = MeasuredLine(forecast, step) + "\n";
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
              {"settings", std::move(settings)},
              {"resources", std::move(resources)}};
}

}  // namespace stepcast::report
