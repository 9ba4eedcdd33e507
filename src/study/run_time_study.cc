#include "src/study/run_time_study.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/forecast/forecast.h"
#include "src/forecast/long_run.h"
#include "src/forecast/warnings.h"
#include "src/scenario/load.h"
#include "src/study/training_question.h"

namespace stepcast::study {
namespace {

using forecast::Published;

Published Given(double value) { return {value, value, value, true}; }

// Reads options into values; what is wrong goes to `faults`.
class Options {
 public:
  explicit Options(Diagnostics& faults) : faults_(faults) {}

  std::optional<double> Time(const char* option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const std::optional<double> seconds = LongTime(text);
    if (!seconds) {
      Fault(option, text,
            fmt::format("the value must be a time longer than zero: {}", Quoted(text)),
            "write a time such as '10 min', '8 h' or '338 d'");
    }
    return seconds;
  }

  // Between failures: "none" is infinite.
  std::optional<double> Between(const char* option, const std::string& text) {
    if (text == "none") return std::numeric_limits<double>::infinity();
    return Time(option, text);
  }

  std::optional<double> Rate(const char* option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto bandwidth = ParseBandwidth(text);
    if (bandwidth && bandwidth->bytes_per_second() > 0) {
      return static_cast<double>(bandwidth->bytes_per_second());
    }
    Fault(option, text,
          bandwidth ? fmt::format("a bandwidth must be above 0: {}", Quoted(text))
                    : bandwidth.error().message,
          "write a bandwidth such as '50 GB/s'");
    return std::nullopt;
  }

  void Fault(const char* option, const std::string& text, std::string message, std::string hint) {
    faults_.push_back(WrongOption(option, text, std::move(message), std::move(hint)));
  }

 private:
  Diagnostics& faults_;
};

void ReadInputs(const RunTimeQuestion& question, Options& options, forecast::RunInputs& inputs) {
  const auto set = [](Published& input, const std::optional<double>& value) {
    if (value) input = Given(*value);
  };
  set(inputs.node_mtbf, options.Between("--node-mtbf", question.node_mtbf));
  set(inputs.job_mtbf, options.Between("--job-mtbf", question.job_mtbf));
  set(inputs.detection, options.Time("--detection", question.detection));
  set(inputs.restart, options.Time("--restart", question.restart));
  set(inputs.storage, options.Rate("--storage", question.storage));
}

void ReadSpares(const RunTimeQuestion& question, Options& options, forecast::LongRun& run) {
  run.limited_spares = question.spares.has_value();
  run.pool.spares = question.spares.value_or(0);
  run.pool.elastic = question.elastic;
  run.pool.repair = options.Time("--repair", question.repair).value_or(0);
  if (run.limited_spares && question.repair.empty()) {
    options.Fault("--spares", fmt::format("{}", *question.spares),
                  "--spares needs --repair, the time to repair a failed node",
                  "add --repair '1 d'");
  }
}

// What of a save the scenario says, which `options` may say otherwise.
void ReadSaving(const std::optional<plan::CheckpointSaving>& saving, std::int64_t saving_nodes,
                forecast::WholeRun& whole) {
  if (!saving) return;
  whole.run.async = saving->mode == plan::CheckpointMode::kAsync;
  whole.inputs.storage = Given(static_cast<double>(saving->bandwidth.bytes_per_second()) *
                               static_cast<double>(saving_nodes));
}

constexpr double kLongRun = 100 * forecast::kDay;

struct Known {
  std::mutex mutex;
  std::map<std::int64_t, forecast::UsedTime> by_gpus;
};

}  // namespace

Result<RunTimeAnswer> AnswerRunTime(const RunTimeQuestion& question) {
  Diagnostics faults;
  Options options(faults);
  RunTimeAnswer answer;
  forecast::WholeRun& whole = answer.run;
  forecast::LongRun& run = whole.run;
  whole.target = ReadTraining(
      {.tokens = question.tokens, .deadline = {}, .price = question.price, .availability = {}},
      faults);
  scenario::InputCache cache;
  auto scenario = scenario::Load(question.scenario, question.set, cache);
  if (!scenario) {
    faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
    return tl::unexpected(std::move(faults));
  }
  // The run's saves are counted apart: a step must not bear a part of them.
  const std::optional<plan::CheckpointSaving> saving = scenario->plan.training.checkpoint_saving;
  if (saving) {
    std::vector<std::string> set = question.set;
    set.emplace_back("training.checkpoint_saving=null");
    scenario = scenario::Load(question.scenario, set, cache);
    if (!scenario) return tl::unexpected(std::move(scenario.error()));
  }
  answer.scenario = *std::move(scenario);

  const forecast::SavedState state = forecast::SavedStateOf(answer.scenario);
  const std::int64_t gpus_per_node = answer.scenario.cluster->gpus_per_node();
  const std::int64_t saving_nodes = (state.gpus + gpus_per_node - 1) / gpus_per_node;
  run.state = state.bytes;
  run.saving_gpus = state.gpus;
  run.pool.nodes = answer.scenario.cluster->nodes();
  run.pool.gpus_per_node = gpus_per_node;
  run.pool.gpus_per_replica = answer.scenario.plan.parallelism.ranks_per_replica();
  whole.inputs =
      forecast::PublishedInputs(gpus_per_node, saving_nodes, question.restarts == "manual");
  ReadSaving(saving, saving_nodes, whole);
  ReadInputs(question, options, whole.inputs);
  ReadSpares(question, options, run);
  if (!question.checkpoint.empty()) run.async = question.checkpoint == "async";
  run.blocking = options.Time("--checkpoint-cost", question.checkpoint_cost);
  run.interval = options.Time("--checkpoint-interval", question.checkpoint_interval);
  if (question.pue.value_or(1) < 1) {
    options.Fault(
        "--pue", fmt::format("{:g}", *question.pue),
        fmt::format("the power usage effectiveness must be at least 1: '{:g}'", *question.pue),
        "write a number of at least 1, for example --pue 1.2");
  }
  if (!faults.empty()) return tl::unexpected(std::move(faults));

  auto step = forecast::FiguresOf(answer.scenario);
  if (!step) return tl::unexpected(std::move(step.error()));
  whole.step = *std::move(step);
  forecast::WarnOfOptimizerStates(whole.step.memory, answer.scenario);
  forecast::WarnOfCommunicationSettings(answer.scenario);
  if (saving && !run.interval) {
    run.interval = static_cast<double>(saving->every) * whole.step.step_time.seconds();
  }
  run.work = TrainingSeconds(whole.target, TrainedStepOf(whole.step));
  whole.time = RunTimeOf(run, whole.inputs);
  whole.target.availability = whole.time.shares.work;
  constexpr double kLongest = 1000 * 365 * forecast::kDay;
  if (!(whole.Seconds() <= kLongest)) {
    return tl::unexpected(Diagnostics{
        WrongOption("--tokens", question.tokens,
                    fmt::format("the run would take more than 1,000 years, because the job trains "
                                "in only {:.2g} % of the time",
                                100 * whole.time.shares.work),
                    "reduce --checkpoint-interval, or check --node-mtbf, --job-mtbf, --restart and "
                    "--storage")});
  }
  whole.power = forecast::PowerOf(answer.scenario);
  whole.node_watts = question.node_watts.value_or(0);
  whole.pue = question.pue.value_or(forecast::kPue);
  whole.pue_assumed = !question.pue;
  return answer;
}

std::function<forecast::UsedTime(std::int64_t gpus)> EffectiveTraining(
    const scenario::Scenario& scenario) {
  const forecast::SavedState state = forecast::SavedStateOf(scenario);
  const std::int64_t gpus_per_node = scenario.cluster->gpus_per_node();
  return [state, gpus_per_node, known = std::make_shared<Known>()](std::int64_t gpus) {
    const std::lock_guard lock(known->mutex);
    const auto [found, added] = known->by_gpus.try_emplace(gpus);
    if (!added) return found->second;
    const auto nodes_of = [gpus_per_node](std::int64_t count) {
      return (count + gpus_per_node - 1) / gpus_per_node;
    };
    forecast::LongRun run;
    run.work = kLongRun;
    run.state = state.bytes;
    run.saving_gpus = std::min(state.gpus, gpus);
    run.pool.nodes = nodes_of(gpus);
    const forecast::RunInputs inputs =
        forecast::PublishedInputs(gpus_per_node, nodes_of(run.saving_gpus), false);
    const forecast::TimeShares shares = RunTimeOf(run, inputs).shares;
    return found->second = {.work = shares.work, .busy = shares.busy()};
  };
}

}  // namespace stepcast::study
