// Every plan that the rules accept lowers to programs without races and leaks, which do not wait
// for one another in a circle. Frameworks, axes and batches at random, and a few settings out of
// the tables that say what settings there are, so that new ones are tried, too.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/cost/price.h"
#include "src/forecast/forecast.h"
#include "src/forecast/priced_class.h"
#include "src/forecast/simulated_ranks.h"
#include "src/lowering/lowering.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/framework.h"
#include "src/plan/parallelism_settings.h"
#include "src/plan/training_settings.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "src/simulate/simulate.h"

namespace stepcast {
namespace {

constexpr const char* kModels[] = {
    // Tied embeddings.
    "{kind: transformer, family: gpt2, num_hidden_layers: 8, hidden_size: 64, num_attention_heads: "
    "4,"
    " intermediate_size: 128, vocab_size: 512, max_position_embeddings: 64}",
    "{kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 64, "
    "num_attention_heads: 4,"
    " intermediate_size: 128, vocab_size: 512}",
    "{kind: transformer, family: bert, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: "
    "4,"
    " intermediate_size: 128, vocab_size: 512, max_position_embeddings: 64}",
    "{kind: layers, layers: [{name: block, repeat: 8, parameters: [4096, 64], forward: 20 us,"
    " backward: 40 us, backward_weight: 15 us, activation: 4 KiB, output: 1 KiB}], optimizer_step: "
    "20 us}"};

// Stages of ZeRO that a framework has, the textbook's being all of them.
std::vector<int> StagesOf(plan::Framework framework) {
  switch (framework) {
    case plan::Framework::kDdp:
      return {0};
    case plan::Framework::kFsdp1:
    case plan::Framework::kFsdp2:
      return {2, 3};
    case plan::Framework::kMegatron:
    case plan::Framework::kNanotron:
      return {0, 1};
    case plan::Framework::kInternEvo:
      return {1};
    default:
      return {0, 1, 2, 3};
  }
}

template <typename Value>
Value AnyOf(const std::vector<Value>& values) {
  return *rc::gen::elementOf(values);
}

// A value of a row of a table; empty: it has a notation of its own, and what is tried of it is
// below.
template <typename Row>
std::string AnyValue(const Row& row) {
  return std::visit(
      [](const auto& type) -> std::string {
        if constexpr (requires { type.words; }) {
          return std::string(AnyOf(type.words));
        } else if constexpr (requires { type.least; }) {
          return std::to_string(
              *rc::gen::inRange(type.least, std::min(type.most, type.least + 3) + 1));
        } else if constexpr (requires { type.kept; }) {
          return *rc::gen::arbitrary<bool>() ? "true" : "false";
        } else {
          return "";
        }
      },
      row.type);
}

template <typename Rows>
void AddAny(const char* section, const Rows& rows, plan::Framework framework,
            std::vector<std::string>& settings) {
  const auto& row = rows[*rc::gen::inRange<std::size_t>(0, rows.size())];
  if (row.required || !row.uses.Has(framework)) return;
  const std::string value = AnyValue(row);
  if (!value.empty()) settings.push_back(fmt::format("{}.{}={}", section, row.key, value));
}

// What --set takes.
std::vector<std::string> AnySettings(plan::Framework framework, int pipeline, int micro_batches) {
  std::vector<std::string> settings;
  if (pipeline > 1 && *rc::gen::arbitrary<bool>()) {
    std::vector<std::string> names;
    for (const parallel::NamedSchedule& named : parallel::NamedSchedules()) {
      names.emplace_back(named.name);
    }
    settings.push_back("parallelism.schedule=" + AnyOf(names));
  }
  const auto add = [&](const std::vector<std::string>& values) {
    if (*rc::gen::inRange(0, 4) == 0) settings.push_back(AnyOf(values));
  };
  if (plan::FindSetting(plan::DataParallelSettings(), "bucket_size")->uses.Has(framework)) {
    add({"data_parallel.bucket_size=1 KiB", "data_parallel.bucket_size=20 KiB"});
  }
  add({"training.activation_checkpointing=full", "training.activation_checkpointing=selective"});
  add({"training.gradient_clipping=1"});
  add({"training.gradient_dtype=fp32", "training.reduce_dtype=fp32"});
  add({"training.precision=fp16", "training.precision=fp32", "training.precision=fp8"});
  const int more = *rc::gen::inRange(0, 4);
  for (int i = 0; i < more; ++i) {
    AddAny("training", plan::TrainingSettings(), framework, settings);
    AddAny("data_parallel", plan::DataParallelSettings(), framework, settings);
    AddAny("parallelism", plan::ParallelismSettings(), framework, settings);
  }
  // The axes and the batch are the case's own.
  std::erase_if(settings, [](const std::string& setting) {
    return setting.starts_with("parallelism.data=") || setting.starts_with("parallelism.tensor=") ||
           setting.starts_with("parallelism.pipeline=");
  });
  settings.push_back(fmt::format("training.gradient_accumulation={}", micro_batches));
  return settings;
}

// The plan at hand. An internal error ends the test where it stands, and should say of what.
std::string& PlanAtHand() {
  static std::string plan;
  return plan;
}
void SayPlan(int /*signal*/) { std::fputs(PlanAtHand().c_str(), stderr); }
void SayPlanAndEnd(int signal) {
  SayPlan(signal);
  std::_Exit(1);
}

// What is wrong with the scenario's programs, a sentence each.
std::vector<std::string> FaultsOf(const scenario::Scenario& scenario) {
  std::vector<std::string> faults;
  std::vector<forecast::PricedClass> classes;
  for (lowering::LoweredClass& own : lowering::Lower(scenario)) {
    for (const program::Violation& violation : program::Validate(own.program)) {
      faults.push_back(violation.message);
    }
    auto prices = cost::Price(own.program, scenario);
    if (!prices) return faults;  // a profile that says nothing of such kernels
    classes.push_back({.lowered = std::move(own), .prices = std::move(*prices), .kind = 0});
  }
  constexpr int kSteps = 2;
  const auto ranks = forecast::SimulatedRanksOf(scenario, classes, kSteps);
  if (!ranks || !faults.empty()) return faults;
  const auto timelines = simulate::Simulate(
      ranks->classes, {.steps = kSteps, .recording = simulate::Recording::kNone});
  if (!timelines) faults = timelines.error().blocked;
  return faults;
}

RC_GTEST_PROP(AnyPlan, LowersToProgramsThatRun, ()) {
  const auto framework = *rc::gen::elementOf(
      std::vector<plan::Framework>(std::begin(plan::kFrameworks), std::end(plan::kFrameworks)));
  const bool has_axes = framework != plan::Framework::kDdp && framework != plan::Framework::kFsdp1;
  const int stage = AnyOf(StagesOf(framework));
  const int data = *rc::gen::inRange(1, 4);
  const int tensor = has_axes ? AnyOf<int>({1, 1, 2, 4}) : 1;
  const int pipeline =
      has_axes && framework != plan::Framework::kInternEvo ? AnyOf<int>({1, 2, 2, 4}) : 1;
  const int micro_batches = *rc::gen::inRange(1, 10);
  const std::string text = fmt::format(
      "stepcast: 1\n"
      "model: {}\n"
      "cluster: {{topology: {{kind: flat, devices: {}, gpu: h100-sxm,"
      " link: {{latency: 5 us, bandwidth: 25 GB/s}}}}}}\n"
      "training: {{sequence_length: 32, micro_batch_size: 1, gradient_accumulation: 1,"
      " precision: bf16, optimizer: adamw}}\n"
      "parallelism: {{tensor: {}, pipeline: {}}}\n"
      "data_parallel: {{framework: {}, zero_stage: {}}}\n",
      *rc::gen::elementOf(std::vector<const char*>(std::begin(kModels), std::end(kModels))),
      data * tensor * pipeline, tensor, pipeline, plan::Name(framework), stage);
  const std::vector<std::string> settings = AnySettings(framework, pipeline, micro_batches);
  PlanAtHand() = text + fmt::format("{}\n", fmt::join(settings, "\n"));
  std::signal(SIGABRT, SayPlan);
  std::signal(SIGSEGV, SayPlanAndEnd);
  static scenario::InputCache cache;
  const auto scenario = scenario::LoadText(text, "plan.yaml", settings, cache);
  RC_PRE(scenario.has_value());
  RC_LOG() << PlanAtHand();
  RC_ASSERT(FaultsOf(*scenario) == std::vector<std::string>());
  static forecast::Forecaster forecaster;
  const auto forecast = forecaster.EvaluateWithRange(*scenario);
  RC_PRE(forecast.has_value());  // a profile that says nothing of such kernels
  RC_ASSERT(forecast->step_time > Time());
}

}  // namespace
}  // namespace stepcast
