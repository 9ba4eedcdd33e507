#include "src/study/stage_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "src/base/stop.h"
#include "src/forecast/forecast.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/warnings.h"
#include "src/planner/search.h"
#include "src/scenario/load.h"
#include "src/scenario/variants.h"

namespace stepcast::study {
namespace {

std::string Messages(const Diagnostics& faults) {
  std::string text;
  for (const Diagnostic& fault : faults) {
    if (!text.empty()) text += "; ";
    text += fault.message;
  }
  return text;
}

report::StageMemory OtherStage(const MemoryQuestion& question, const scenario::Scenario& own,
                               int stage, scenario::InputCache& cache) {
  report::StageMemory memory;
  memory.stage = stage;
  std::vector<std::string> set = question.set;
  set.push_back(fmt::format("data_parallel.zero_stage={}", stage));
  const auto scenario = scenario::Load(question.scenario, set, cache);
  if (!scenario) {
    // The textbook formula ignores limits of the framework.
    scenario::Scenario textbook = own;
    textbook.plan.data_parallel.zero_stage = stage;
    memory.formula = forecast::MemoryFormula(textbook);
    memory.reason = Messages(scenario.error());
    return memory;
  }
  memory.formula = forecast::MemoryFormula(*scenario);
  const auto run = forecast::FiguresOf(*scenario);
  if (run) {
    memory.simulated = run->memory;
  } else {
    memory.reason = Messages(run.error());
  }
  if (run && question.max_micro_batch) {
    if (auto limit = forecast::FindMicroBatchLimit(*scenario)) memory.limit = *std::move(limit);
  }
  return memory;
}

Diagnostic GivenActivations(const MemoryQuestion& question) {
  return {
      "command.no-micro-batch",
      {"command line", 0, 0},
      fmt::format("the model of {} is a layer list, whose activation sizes are valid for only one "
                  "micro-batch size",
                  Quoted(question.scenario)),
      "omit --max-micro-batch, or use a model file with the dimensions of the model"};
}

using report::FittingSettings;

constexpr std::size_t kMost = 5;           // that are returned
constexpr std::size_t kMostTogether = 16;  // forecasts of two settings, and of three

// Options that are set together. The rules refuse those that the framework lacks.
using MeasureValue = std::vector<std::string>;

// A way to save memory; a plan has at most one of its values.
using Measure = std::vector<MeasureValue>;

// Fewer data-parallel ranks; the global batch stays.
Measure Divided(const char* axis, const MeasureValue& more) {
  Measure values;
  for (const int ranks : {2, 4, 8}) {
    MeasureValue& value = values.emplace_back(
        MeasureValue{fmt::format("parallelism.{}={}", axis, ranks), "parallelism.data=null",
                     "training.gradient_accumulation=null"});
    value.insert(value.end(), more.begin(), more.end());
  }
  return values;
}

std::vector<Measure> Measures() {
  return {
      {{"training.activation_checkpointing=selective"},
       {"training.activation_checkpointing=selective_op"},
       {"training.activation_checkpointing=full"}},
      {{"training.loss=chunked", "training.loss_chunk=1024"}},
      {{"training.micro_batch_size=1", "training.gradient_accumulation=null"}},
      {{"training.optimizer=adamw_8bit"}, {"training.optimizer_state_dtype=bf16"}},
      {{"training.activation_offload=true"}},
      {{"data_parallel.zero_stage=1"},
       {"data_parallel.zero_stage=2"},
       {"data_parallel.zero_stage=3"}},
      {{"data_parallel.reshard_after_forward=true"}},
      {{"data_parallel.cpu_offload=true"},
       {"data_parallel.optimizer_cpu_offload=true"},
       {"data_parallel.deepspeed.offload_optimizer=cpu"},
       {"data_parallel.deepspeed.offload_optimizer=cpu",
        "data_parallel.deepspeed.offload_param=cpu"}},
      Divided("tensor", {"parallelism.sequence_parallel=true"}),
      Divided("pipeline", {}),
      Divided("context", {}),
  };
}

// One or several options that were forecast, or are to be.
struct Trial {
  std::vector<std::size_t> measures;  // in increasing order
  FittingSettings settings;
  bool fits = false;
};

class Attempts {
 public:
  Attempts(const std::string& scenario, const std::vector<std::string>& set,
           scenario::InputCache& cache)
      : variants_(scenario, set, cache) {
    const auto own = variants_.Try({});
    if (own.scenario == nullptr) return;
    batch_ =
        fmt::format("training.global_batch_size={}", own.scenario->plan.training.global_batch_size);
    const auto forecast = forecaster_.Evaluate(*own.scenario);
    if (!forecast) return;
    own_ = Judged({}, *forecast);
  }

  bool can_begin() const { return own_.has_value(); }

  void TryAll() {
    const std::vector<Measure> measures = Measures();
    for (std::size_t i = 0; i < measures.size(); ++i) {
      for (const MeasureValue& options : measures[i]) {
        if (auto trial = Forecast({i}, options)) singles_.push_back(*std::move(trial));
      }
    }
    // Settings that cost memory help nobody else.
    std::erase_if(singles_, [&](const Trial& one) { return Saved(one) <= 0; });
    for (std::size_t together = 2; together <= 3 && found_.empty(); ++together) {
      TryTogether(together);
    }
  }

  report::Fitting Answer() && {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.step_time < b.step_time; });
    found_.resize(std::min(found_.size(), kMost));
    report::Fitting fitting{.settings = std::move(found_),
                            .nearest = std::nullopt,
                            .step_time = own_ ? own_->settings.step_time : Time(),
                            .forecasts = forecasts_,
                            .stopped = false,
                            .command = {}};
    if (fitting.settings.empty()) fitting.nearest = std::move(nearest_);
    return fitting;
  }

 private:
  std::int64_t Saved(const Trial& trial) const {
    return (trial.settings.left - own_->settings.left).count();
  }

  Trial Judged(MeasureValue set, const forecast::Forecast& forecast) const {
    const forecast::MemoryForecast& memory = forecast::LeastProbable(forecast);
    return {.measures = {},
            .settings = {.set = std::move(set),
                         .step_time = forecast.step_time,
                         .left = memory.left(),
                         .fit_probability = memory.fit_probability},
            .fits = memory.fits && memory.fit_probability >= planner::kSafeFit};
  }

  // Nothing if the rules refuse the options.
  std::optional<Trial> Forecast(std::vector<std::size_t> measures, const MeasureValue& options) {
    MeasureValue set;
    for (const std::string& option : options) {
      if (std::find(set.begin(), set.end(), option) == set.end()) set.push_back(option);
    }
    const bool derives =
        std::find(set.begin(), set.end(), "training.gradient_accumulation=null") != set.end();
    if (derives && std::find(set.begin(), set.end(), batch_) == set.end()) set.push_back(batch_);
    const auto tried = variants_.Try(set);
    if (tried.scenario == nullptr) return std::nullopt;
    const auto forecast = forecaster_.Evaluate(*tried.scenario);
    if (!forecast) return std::nullopt;
    ++forecasts_;
    Trial trial = Judged(std::move(set), *forecast);
    trial.measures = std::move(measures);
    if (trial.fits) {
      found_.push_back(trial.settings);
    } else if (!nearest_ || nearest_->left < trial.settings.left) {
      nearest_ = trial.settings;
    }
    return trial;
  }

  // Forecasts the most promising combinations of this many measures, until enough fit.
  void TryTogether(std::size_t together) {
    std::vector<Trial> candidates = Combined(together);
    const auto lacks = [](const Trial& one) { return one.settings.left < Bytes(); };
    // By the sums of what the measures save and cost alone: first those that should fit, fastest
    // first, then those that lack least.
    std::stable_sort(candidates.begin(), candidates.end(), [&](const Trial& a, const Trial& b) {
      if (lacks(a) != lacks(b)) return lacks(b);
      return lacks(a) ? b.settings.left < a.settings.left
                      : a.settings.step_time < b.settings.step_time;
    });
    candidates.resize(std::min(candidates.size(), kMostTogether));
    for (const Trial& candidate : candidates) {
      if (found_.size() >= kMost) return;
      Forecast(candidate.measures, candidate.settings.set);
    }
  }

  // All combinations of this many measures, with estimates for their figures.
  std::vector<Trial> Combined(std::size_t together) const {
    std::vector<Trial> combined = {*own_};
    for (std::size_t i = 0; i < together; ++i) {
      std::vector<Trial> larger;
      for (const Trial& part : combined) {
        for (const Trial& more : singles_) {
          if (!part.measures.empty() && more.measures.front() <= part.measures.back()) continue;
          Trial& both = larger.emplace_back(part);
          both.measures.push_back(more.measures.front());
          both.settings.set.insert(both.settings.set.end(), more.settings.set.begin(),
                                   more.settings.set.end());
          both.settings.left += Bytes(Saved(more));
          both.settings.step_time =
              both.settings.step_time + (more.settings.step_time - own_->settings.step_time);
        }
      }
      combined = std::move(larger);
    }
    return combined;
  }

  scenario::Variants variants_;
  forecast::Forecaster forecaster_;
  std::string batch_;
  std::optional<Trial> own_;
  std::vector<Trial> singles_;  // those that save memory
  std::vector<FittingSettings> found_;
  std::optional<FittingSettings> nearest_;
  int forecasts_ = 0;
};

}  // namespace

Result<StagesMemory> MemoryOfStages(const MemoryQuestion& question) {
  scenario::InputCache cache;
  auto scenario = scenario::Load(question.scenario, question.set, cache);
  if (!scenario) return tl::unexpected(std::move(scenario.error()));
  if (question.max_micro_batch && scenario->model->is_layer_list()) {
    return tl::unexpected(Diagnostics{GivenActivations(question)});
  }
  auto own = forecast::FiguresOf(*scenario);
  if (!own) return tl::unexpected(std::move(own.error()));
  const forecast::MemoryForecast& own_memory = own->memory;
  forecast::WarnOfOptimizerStates(own_memory, *scenario);

  report::MemoryReport report;
  forecast::MemoryForecast judged = forecast::LeastProbable(*own);
  report.own_stage = scenario->plan.data_parallel.zero_stage;
  for (int stage = 0; stage <= 3; ++stage) {
    if (stage == report.own_stage) {
      report.stages.push_back({stage, forecast::MemoryFormula(*scenario), own_memory, ""});
      if (!question.max_micro_batch) continue;
      auto limit = forecast::FindMicroBatchLimit(*scenario);
      if (!limit) return tl::unexpected(std::move(limit.error()));
      judged = limit->memory;
      report.stages.back().limit = *std::move(limit);
    } else {
      report.stages.push_back(OtherStage(question, *scenario, stage, cache));
    }
  }
  StagesMemory memory{*std::move(scenario), std::move(report), std::move(judged)};
  if (!memory.own.fits) {
    memory.fitting = SettingsThatFit(question.scenario, question.set, cache);
  }
  return memory;
}

report::Fitting SettingsThatFit(const std::string& scenario, const std::vector<std::string>& set,
                                scenario::InputCache& cache, std::chrono::milliseconds time) {
  StopFlag stop;
  stop.RequestAt(std::chrono::steady_clock::now() + time);
  const StopScope scope(stop);
  std::optional<Attempts> attempts;
  bool stopped = false;
  try {
    attempts.emplace(scenario, set, cache);
    if (attempts->can_begin()) attempts->TryAll();
  } catch (const Stopped&) {
    stopped = true;
  }
  report::Fitting fitting;
  if (attempts) fitting = std::move(*attempts).Answer();
  fitting.stopped = stopped;
  return fitting;
}

}  // namespace stepcast::study
