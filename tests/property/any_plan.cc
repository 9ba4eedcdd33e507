#include "tests/property/any_plan.h"

#include <rapidcheck.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/data_parallel_settings.h"
#include "src/plan/framework.h"
#include "src/plan/parallelism_settings.h"
#include "src/plan/training_settings.h"

namespace stepcast {
namespace {

using plan::Framework;

const char* const kModels[] = {
    // Tied embeddings.
    R"({kind: transformer, family: gpt2, num_hidden_layers: 8, hidden_size: 16, num_attention_heads: 4,
  intermediate_size: 32, vocab_size: 64, max_position_embeddings: 32})",
    R"({kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 16, num_attention_heads: 4,
  intermediate_size: 32, vocab_size: 64})",
    R"({kind: transformer, family: bert, num_hidden_layers: 4, hidden_size: 16, num_attention_heads: 4,
  intermediate_size: 32, vocab_size: 64, max_position_embeddings: 32})",
    R"({kind: layers, layers: [{name: block, repeat: 8, parameters: [24, 7], forward: 20 us, backward: 40 us,
  backward_weight: 15 us, activation: 64 B, output: 16 B, communication: {
  forward: [[all_reduce, tensor, 64 B], [all_gather, tensor, 64 B]],
  backward: [[reduce_scatter, tensor, 64 B]]}}], optimizer_step: 20 us})"};

template <typename Value>
Value AnyOf(const std::vector<Value>& values) {
  return *rc::gen::elementOf(values);
}

std::vector<int> ZeroStagesOf(Framework framework) {
  switch (framework) {
    case Framework::kDdp:
      return {0};
    case Framework::kFsdp1:
    case Framework::kFsdp2:
      return {2, 3};
    case Framework::kMegatron:
    case Framework::kNanotron:
      return {0, 1};
    case Framework::kDeepSpeed:
    case Framework::kReference:
      return {0, 1, 2, 3};
  }
  return {};
}

// A value of a row of a table; empty: the row has a notation of its own.
template <typename Row>
std::string AnyValue(const Row& row) {
  return std::visit(
      [](const auto& type) -> std::string {
        if constexpr (requires { type.words; }) {
          return std::string(AnyOf(type.words));
        } else if constexpr (requires { type.least; }) {
          constexpr int kCounts = 4;
          const auto most = std::min(type.most, type.least + kCounts - 1);
          return std::to_string(*rc::gen::inRange(type.least, most + 1));
        } else if constexpr (requires { type.kept; }) {
          return *rc::gen::arbitrary<bool>() ? "true" : "false";
        } else {
          return "";
        }
      },
      row.type);
}

template <typename Rows>
void AddAny(const char* section, const Rows& rows, Framework framework,
            std::vector<std::string>& settings) {
  const auto& row = rows[*rc::gen::inRange<std::size_t>(0, rows.size())];
  if (row.required || !row.uses.Has(framework)) return;
  const std::string value = AnyValue(row);
  if (!value.empty()) settings.push_back(fmt::format("{}.{}={}", section, row.key, value));
}

std::vector<std::string> AnySettings(Framework framework, int pipeline) {
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
    add({"data_parallel.bucket_size=64 B", "data_parallel.bucket_size=2 KiB"});
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
  // The scenario's own.
  std::erase_if(settings, [](const std::string& setting) {
    return setting.starts_with("parallelism.data=") || setting.starts_with("parallelism.tensor=") ||
           setting.starts_with("parallelism.context=") ||
           setting.starts_with("parallelism.pipeline=");
  });
  return settings;
}

std::string& AtHand() {
  static std::string plan;
  return plan;
}

void Say(int signal) {
  std::fputs(AtHand().c_str(), stderr);
  if (signal != SIGABRT) std::_Exit(1);
}

}  // namespace

PlanText AnyPlan() {
  const Framework framework = *rc::gen::elementOf(
      std::vector<Framework>(std::begin(plan::kFrameworks), std::end(plan::kFrameworks)));
  const bool has_axes = framework != Framework::kDdp && framework != Framework::kFsdp1;
  const int zero_stage = AnyOf(ZeroStagesOf(framework));
  const int data = *rc::gen::inRange(1, 4);
  const int tensor = has_axes ? AnyOf<int>({1, 1, 2, 4}) : 1;
  const int pipeline = has_axes ? AnyOf<int>({1, 2, 2, 4}) : 1;
  const bool contexts = plan::TraitsOf(framework).context_parallel;
  const int context = contexts ? AnyOf<int>({1, 1, 2, 4}) : 1;
  const int micro_batches = *rc::gen::inRange(1, 10);
  PlanText plan;
  plan.scenario = fmt::format(
      "stepcast: 1\n"
      "model: {}\n"
      "cluster: {{topology: {{kind: flat, devices: {}, gpu: h100-sxm,"
      " link: {{latency: 5 us, bandwidth: 25 GB/s}}}}}}\n"
      "training: {{sequence_length: 32, micro_batch_size: 1, gradient_accumulation: {},"
      " precision: bf16, optimizer: adamw}}\n"
      "parallelism: {{tensor: {}, context: {}, pipeline: {}}}\n"
      "data_parallel: {{framework: {}, zero_stage: {}}}\n",
      *rc::gen::elementOf(std::vector<const char*>(std::begin(kModels), std::end(kModels))),
      data * tensor * context * pipeline, micro_batches, tensor, context, pipeline,
      plan::Name(framework), zero_stage);
  plan.settings = AnySettings(framework, pipeline);
  return plan;
}

void SayWhenItEnds(const PlanText& plan) {
  AtHand() = Said(plan);
  for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, Say);
}

std::string Said(const PlanText& plan) {
  return fmt::format("{}{}\n", plan.scenario, fmt::join(plan.settings, "\n"));
}

}  // namespace stepcast
