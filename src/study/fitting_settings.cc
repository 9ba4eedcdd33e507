#include "src/study/fitting_settings.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fmt/format.h"
#include "src/forecast/forecast.h"
#include "src/planner/search.h"
#include "src/scenario/variants.h"

namespace stepcast::study {
namespace {

constexpr std::size_t kMost = 5;

// Settings that are set together. The rules refuse those that the framework lacks.
using Together = std::vector<std::string>;

const Together kFull = {"training.activation_checkpointing=full"};

// Settings with fewer data-parallel ranks; the global batch stays.
std::vector<Together> Divided() {
  std::vector<Together> divided;
  for (const int ranks : {2, 4, 8}) {
    const std::string tensor = fmt::format("parallelism.tensor={}", ranks);
    divided.push_back({tensor, "parallelism.data=null", "parallelism.sequence_parallel=true",
                       "training.gradient_accumulation=null"});
    divided.push_back({fmt::format("parallelism.pipeline={}", ranks), "parallelism.data=null",
                       "training.gradient_accumulation=null"});
  }
  return divided;
}

std::vector<Together> Candidates() {
  std::vector<Together> candidates = {
      {"training.activation_checkpointing=selective"},
      {"training.activation_checkpointing=selective_op"},
      kFull,
      {"training.loss=chunked", "training.loss_chunk=1024"},
      {"training.micro_batch_size=1", "training.gradient_accumulation=null"},
      {"training.optimizer=adamw_8bit"},
      {"training.optimizer_state_dtype=bf16"},
      {"training.activation_offload=true"},
      {"data_parallel.zero_stage=2"},
      {"data_parallel.zero_stage=3"},
      {"data_parallel.reshard_after_forward=true"},
      {"data_parallel.cpu_offload=true"},
      {"data_parallel.optimizer_cpu_offload=true"},
      {"data_parallel.offload_optimizer=cpu"},
      {"data_parallel.offload_optimizer=cpu", "data_parallel.offload_param=cpu"},
  };
  for (Together& divided : Divided()) candidates.push_back(std::move(divided));
  return candidates;
}

class Attempts {
 public:
  Attempts(const std::string& scenario, const std::vector<std::string>& set,
           scenario::InputCache& cache)
      : variants_(scenario, set, cache) {
    const auto own = variants_.Try({});
    if (own.scenario == nullptr) return;
    batch_ =
        fmt::format("training.global_batch_size={}", own.scenario->plan.training.global_batch_size);
  }

  void Try(const Together& settings) {
    std::vector<std::string> set = settings;
    const bool derives =
        std::find(set.begin(), set.end(), "training.gradient_accumulation=null") != set.end();
    if (derives) set.push_back(batch_);
    const auto tried = variants_.Try(set);
    if (tried.scenario == nullptr) return;
    const auto forecast = forecaster_.Evaluate(*tried.scenario);
    if (!forecast || forecast->memory.fit_probability < planner::kSafeFit) return;
    found_.push_back({.set = std::move(set),
                      .step_time = forecast->step_time,
                      .left = forecast->memory.left(),
                      .fit_probability = forecast->memory.fit_probability});
  }

  bool any() const { return !found_.empty(); }

  std::vector<report::FittingSettings> Fastest() && {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.step_time < b.step_time; });
    found_.resize(std::min(found_.size(), kMost));
    return std::move(found_);
  }

 private:
  scenario::Variants variants_;
  forecast::Forecaster forecaster_;
  std::string batch_;
  std::vector<report::FittingSettings> found_;
};

}  // namespace

std::vector<report::FittingSettings> SettingsThatFit(const std::string& scenario,
                                                     const std::vector<std::string>& set,
                                                     scenario::InputCache& cache) {
  Attempts attempts(scenario, set, cache);
  for (const Together& settings : Candidates()) attempts.Try(settings);
  if (attempts.any()) return std::move(attempts).Fastest();
  for (Together settings : Candidates()) {
    if (settings == kFull) continue;
    settings.insert(settings.end(), kFull.begin(), kFull.end());
    attempts.Try(settings);
  }
  return std::move(attempts).Fastest();
}

}  // namespace stepcast::study
