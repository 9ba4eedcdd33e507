#include "src/study/measured_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/forecast/forecast.h"
#include "src/forecast/what_if.h"
#include "src/scenario/variants.h"
#include "src/study/traced_steps.h"
#include "src/validate/step_causes.h"

namespace stepcast::study {
namespace {

struct Suspect {
  const char* setting;
  const char* next;
};

constexpr const char* kTorch = "torch.__version__";
constexpr const char* kNccl = "NCCL_DEBUG=VERSION";
constexpr const char* kKernels = "kernel names in a trace";
constexpr const char* kOptions = "options of the run";
constexpr const char* kRanks = "traces of two ranks: the slow rank waits less";

// What runs often have otherwise. Rules refuse what the framework does not have.
constexpr Suspect kSuspects[] = {
    {"software.torch=2.10", kTorch},
    {"software.torch=2.6", kTorch},
    {"software.torch=2.3", kTorch},
    {"software.torch=2.0", kTorch},
    {"software.nccl=2.27", kNccl},
    {"software.nccl=2.21", kNccl},
    {"training.compile=false", kKernels},
    {"training.compile=true", kKernels},
    {"training.loss=eager", kKernels},
    {"training.loss=huggingface", kKernels},
    {"training.loss=fused", kKernels},
    {"training.attention=flash", kKernels},
    {"training.attention=cudnn", kKernels},
    {"training.attention=flash3", kKernels},
    {"training.attention=math", kKernels},
    {"training.norm=eager", kKernels},
    {"training.rotary=huggingface", kKernels},
    {"training.activation_function=huggingface", kKernels},
    {"training.precision=tf32", kKernels},
    {"training.activation_checkpointing=none", kOptions},
    {"training.activation_checkpointing=selective", kOptions},
    {"training.activation_checkpointing=full", kOptions},
    {"training.optimizer_implementation=fused", kOptions},
    {"training.optimizer_implementation=single", kOptions},
    {"training.reduce_dtype=fp32", kOptions},
    {"training.gradient_clipping=1.0", kOptions},
    {"data_parallel.bucket_size=1 MiB", kOptions},
    {"data_parallel.overlap=false", kOptions},
    {"data_parallel.prefetch=0", kOptions},
    {"data_parallel.backward_prefetch=none", kOptions},
    {"data_parallel.zero_stage=3", kOptions},
    {"cluster.slow_devices=[{device: node0/gpu0, speed: 0.9}]", kRanks},
    {"cluster.slow_devices=[{device: node0/gpu0, speed: 0.8}]", kRanks},
};

// What explains less, or overshoots by more, is no explanation.
constexpr double kLeastPart = 0.1, kMostPart = 2;

std::vector<report::TriedSetting> SettingsThatExplain(const std::string& file,
                                                      const std::vector<std::string>& set,
                                                      Time forecast, Time measured,
                                                      scenario::InputCache& cache) {
  const double difference = (measured - forecast).seconds();
  scenario::Variants variants(file, set, cache);
  forecast::Forecaster forecaster;
  std::vector<report::TriedSetting> explaining;
  for (const Suspect& suspect : kSuspects) {
    const auto tried = variants.Try({suspect.setting});
    if (tried.scenario == nullptr) continue;
    const auto other = forecaster.Evaluate(*tried.scenario);
    if (!other) continue;
    const double part = (other->step_time - forecast).seconds() / difference;
    if (part < kLeastPart || part > kMostPart) continue;
    // Releases between which nothing changed: the newest of them.
    const bool known = std::any_of(explaining.begin(), explaining.end(), [&](const auto& one) {
      return one.step_time == other->step_time && one.next == suspect.next;
    });
    if (known) continue;
    explaining.push_back({{suspect.setting}, other->step_time, part, suspect.next});
  }
  std::stable_sort(explaining.begin(), explaining.end(), [](const auto& a, const auto& b) {
    return std::abs(std::log(a.explains)) < std::abs(std::log(b.explains));
  });
  return explaining;
}

}  // namespace

Result<report::MeasuredStep> ExplainMeasured(const std::string& file,
                                             const std::vector<std::string>& set,
                                             const scenario::Scenario& scenario,
                                             const forecast::Forecast& forecast, Time measured,
                                             scenario::InputCache& cache) {
  report::MeasuredStep step;
  step.measured = measured;
  if (forecast.step_time_range) step.in_range = forecast.step_time_range->Holds(measured);
  if (measured == forecast.step_time) return step;
  step.settings = SettingsThatExplain(file, set, forecast.step_time, measured, cache);
  // No slower resource explains a shorter step.
  if (measured < forecast.step_time) return step;
  auto resources = forecast::SpeedsThatExplain(scenario, forecast.step_time, measured);
  if (!resources) return tl::unexpected(std::move(resources.error()));
  step.resources = *std::move(resources);
  return step;
}

Result<report::MeasuredStep> ExplainTraced(const std::string& traces, const std::string& file,
                                           const std::vector<std::string>& set,
                                           const scenario::Scenario& scenario,
                                           scenario::InputCache& cache) {
  const auto run = forecast::Simulate(scenario);
  if (!run) return tl::unexpected(run.error());
  auto traced = ReadTracedSteps(traces, *run, scenario.cluster->devices());
  if (!traced) return tl::unexpected(std::move(traced.error()));
  validate::StepCauses causes = validate::CausesOf(*run, std::move(traced->ranks));
  causes.notes.insert(causes.notes.end(), traced->notes.begin(), traced->notes.end());
  auto step = ExplainMeasured(file, set, scenario, run->forecast, causes.measured, cache);
  if (!step) return step;
  step->number = traced->number;
  step->causes = std::move(causes);
  return step;
}

}  // namespace stepcast::study
