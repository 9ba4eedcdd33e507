#include "tests/property/any_plan.h"

#include <rapidcheck.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <variant>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework.h"
#include "src/plan/settings.h"

namespace stepcast {
namespace {

using plan::Framework;

// Degrees of parallelism besides data.
struct Axes {
  int tensor = 1, context = 1, pipeline = 1;
};

const char* const kModels[] = {
    // Tied embeddings.
    R"({kind: transformer, family: gpt2, num_hidden_layers: 8, hidden_size: 16, num_attention_heads: 4,
  intermediate_size: 32, vocab_size: 64, max_position_embeddings: 32})",
    R"({kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 16, num_attention_heads: 4,
  intermediate_size: 32, vocab_size: 64})",
    // So large that the device, not the host, bounds its step.
    R"({kind: transformer, family: llama, num_hidden_layers: 8, hidden_size: 4096,
  num_attention_heads: 32, num_key_value_heads: 8, intermediate_size: 14336, vocab_size: 32000})",
    R"({kind: transformer, family: mistral, num_hidden_layers: 4, hidden_size: 256,
  num_attention_heads: 8, num_key_value_heads: 4, intermediate_size: 512, vocab_size: 1024,
  sliding_window: 16})",
    R"({kind: transformer, family: qwen2, num_hidden_layers: 6, hidden_size: 64, num_attention_heads: 8,
  num_key_value_heads: 4, intermediate_size: 128, vocab_size: 256})",
    R"({kind: transformer, family: mpt, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4,
  intermediate_size: 256, vocab_size: 128, max_position_embeddings: 32})",
    R"({kind: transformer, family: nemotron, num_hidden_layers: 4, hidden_size: 64,
  num_attention_heads: 8, num_key_value_heads: 4, intermediate_size: 256, vocab_size: 128})",
    R"({kind: transformer, family: bert, num_hidden_layers: 4, hidden_size: 16, num_attention_heads: 4,
  intermediate_size: 32, vocab_size: 64, max_position_embeddings: 32})",
    R"({kind: transformer, family: megatron-bert, num_hidden_layers: 4, hidden_size: 32,
  num_attention_heads: 4, intermediate_size: 64, vocab_size: 64, max_position_embeddings: 32})",
    R"({kind: transformer, family: mixtral, num_hidden_layers: 6, hidden_size: 64,
  num_attention_heads: 4, intermediate_size: 32, num_experts: 4, num_experts_per_tok: 2,
  vocab_size: 64})",
    R"({kind: transformer, family: deepseek, num_hidden_layers: 6, hidden_size: 64,
  num_attention_heads: 4, intermediate_size: 128, num_experts: 8, num_experts_per_tok: 2,
  moe_intermediate_size: 32, shared_expert_intermediate_size: 32, first_k_dense_replace: 1,
  kv_lora_rank: 32, qk_nope_head_dim: 16, qk_rope_head_dim: 8, v_head_dim: 16, vocab_size: 64})",
    R"({kind: layers, layers: [{name: block, repeat: 8, parameters: [24, 7], forward: 20 us, backward: 40 us,
  backward_weight: 15 us, activation: 64 B, output: 16 B, communication: {
  forward: [[all_reduce, tensor, 64 B], [all_gather, tensor, 64 B]],
  backward: [[reduce_scatter, tensor, 64 B]]}}], optimizer_step: 20 us})",
    R"({kind: layers, layers: [
  {name: stem, repeat: 1, parameters: [100000], forward: 1 ms, backward: 1 ms, activation: 3 MiB,
   output: 1 MiB},
  {name: block, repeat: 4, parameters: [3000000, 1000], forward: 2 ms, backward: 5 ms,
   activation: 64 MiB, output: 1 MiB}], optimizer_step: 1 ms})"};

// The cluster: flat, or described nodes of one or two kinds.
struct Machines {
  const char* topology;
  int per_node;
};
constexpr Machines kNodes[] = {{"dgx-h100", 8},        {"dgx-a100", 8},    {"dgx-b200", 8},
                               {"aws-p4d", 8},         {"a100-4x200g", 4}, {"l40s-4x25g", 4},
                               {"pcie-8gpu", 8},       {"dgx-1-v100", 8},  {"jean-zay-a100", 8},
                               {"grand-teton-h100", 8}};

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

// A value for a row of a table; empty if the row has a special notation.
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

// Adds values of settings whose notation the tables do not have, and of the most important
// settings.
void AddChosen(Framework framework, const Axes& axes, std::vector<std::string>& settings) {
  const auto add = [&](int one_of, const std::vector<std::string>& values) {
    if (*rc::gen::inRange(0, one_of) == 0) settings.push_back(AnyOf(values));
  };
  // Without experts, these are refused or have no effect.
  if (plan::TraitsOf(framework).expert_parallel) {
    add(4, {"parallelism.expert=2", "parallelism.expert=4", "parallelism.sequence_parallel=true",
            "experts.imbalance=1.25", "experts.capacity_factor=0.5",
            "training.recompute_modules=moe_act", "training.recompute_modules=moe"});
  }
  if (axes.pipeline > 1) {
    std::vector<std::string> names;
    for (const parallel::NamedSchedule& named : parallel::NamedSchedules()) {
      names.push_back(fmt::format("parallelism.schedule={}", named.name));
    }
    add(2, names);
    add(3, {"parallelism.virtual_stages=2", "parallelism.virtual_stages=4"});
    add(3, {"parallelism.microbatch_group_size_per_vp_stage=4",
            "parallelism.microbatch_group_size_per_vp_stage=5",
            "parallelism.microbatch_group_size_per_vp_stage=8"});
  }
  if (axes.tensor > 1) {
    add(2, {"parallelism.sequence_parallel=true"});
    add(4, {"training.tensor_overlap=user_buffers", "training.tensor_overlap=async"});
  }
  if (axes.context > 1) {
    add(2, {"parallelism.context_method=all_gather", "parallelism.context_method=all_to_all",
            "parallelism.context_method=ring"});
    if (axes.context == 4 && *rc::gen::inRange(0, 4) == 0) {
      settings.emplace_back("parallelism.context_method=hierarchical");
      settings.emplace_back("parallelism.context_inner=2");
    }
  }
  if (plan::FindSetting(plan::DataParallelSettings(), "bucket_size")->uses.Has(framework)) {
    add(4, {"data_parallel.bucket_size=64 B", "data_parallel.bucket_size=2 KiB"});
  }
  if (framework == Framework::kFsdp2 || framework == Framework::kReference) {
    add(4, {"data_parallel.reshard_after_forward=2", "data_parallel.reshard_after_forward=false",
            "data_parallel.reshard_after_forward=4"});
  }
  add(6, {"data_parallel.shard_group_size=2"});
  add(4, {"training.activation_checkpointing=full", "training.activation_checkpointing=selective",
          "training.activation_checkpointing=selective_op"});
  add(4, {"training.gradient_clipping=1"});
  add(4, {"training.gradient_dtype=fp32", "training.reduce_dtype=fp32",
          "training.parameter_dtype=fp32"});
  add(4, {"training.precision=fp16", "training.precision=fp32", "training.precision=fp8",
          "training.precision=tf32", "training.precision=mxfp8", "training.precision=nvfp4"});
  add(8, {"training.activation_offload=true"});
  add(8, {"training.compile=true"});
  add(6, {"training.loss=chunked", "training.loss=cut", "training.loss=huggingface",
          "training.loss=fused"});
  if (framework == Framework::kFsdp1) add(3, {"data_parallel.mixed_precision=autocast"});
  add(8, {"training.lora={rank: 4, targets: q_proj v_proj}",
          "training.lora={rank: 4, targets: linear_qkv linear_proj linear_fc1 linear_fc2}"});
  if (framework == Framework::kDeepSpeed) {
    add(3, {"data_parallel.deepspeed.offload_optimizer=cpu",
            "data_parallel.deepspeed.offload_param=cpu",
            "data_parallel.deepspeed={offload_optimizer: cpu, offload_param: cpu}"});
    add(4, {"data_parallel.deepspeed.zero_hpz_partition_size=2",
            "data_parallel.deepspeed.zero_quantized_gradients=true",
            "data_parallel.deepspeed.zero_quantized_weights=true"});
  }
}

std::vector<std::string> AnySettings(Framework framework, const Axes& axes) {
  std::vector<std::string> settings;
  AddChosen(framework, axes, settings);
  const int more = *rc::gen::inRange(0, 4);
  for (int i = 0; i < more; ++i) {
    AddAny("training", plan::TrainingSettings(), framework, settings);
    AddAny("data_parallel", plan::DataParallelSettings(), framework, settings);
    AddAny("parallelism", plan::ParallelismSettings(), framework, settings);
    AddAny("experts", plan::MixtureSettings(), framework, settings);
  }
  // Settings that the scenario already has.
  std::erase_if(settings, [](const std::string& setting) {
    return setting.starts_with("parallelism.data=") || setting.starts_with("parallelism.tensor=") ||
           setting.starts_with("parallelism.context=") ||
           setting.starts_with("parallelism.pipeline=") ||
           setting.starts_with("training.global_batch_size=");
  });
  return settings;
}

// How the framework divides a step; half of the time along two or three axes besides data.
Axes AnyAxes(Framework framework) {
  const plan::FrameworkTraits& traits = plan::TraitsOf(framework);
  const bool several = *rc::gen::arbitrary<bool>();
  const auto degree = [&](bool has) {
    if (!has) return 1;
    return several ? AnyOf<int>({1, 2, 2, 4}) : 1;
  };
  Axes axes{.tensor = degree(traits.tensor_parallel),
            .context = degree(traits.context_parallel),
            .pipeline = degree(traits.pipelines)};
  if (!several) {
    const int one = *rc::gen::inRange(0, 4);
    if (one == 1 && traits.tensor_parallel) axes.tensor = AnyOf<int>({2, 4});
    if (one == 2 && traits.context_parallel) axes.context = AnyOf<int>({2, 4});
    if (one == 3 && traits.pipelines) axes.pipeline = AnyOf<int>({2, 3, 4});
  }
  return axes;
}

// A cluster whose devices the axes divide, with one to four data-parallel ranks or more.
std::string AnyCluster(const Axes& axes) {
  const int others = axes.tensor * axes.context * axes.pipeline;
  if (*rc::gen::inRange(0, 5) < 2) {
    const int devices = others * *rc::gen::inRange(1, 5);
    const bool slow = *rc::gen::inRange(0, 8) == 0;
    return fmt::format(
        "{{topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: "
        "{}}}}}{}}}",
        devices, AnyOf<std::string>({"25 GB/s", "1 GB/s", "400 GB/s"}),
        slow ? ", slow_devices: [{device: device0, speed: 0.5}]" : "");
  }
  const Machines& kind = kNodes[*rc::gen::inRange<std::size_t>(0, std::size(kNodes))];
  int nodes = (others + kind.per_node - 1) / kind.per_node;
  nodes *= AnyOf<int>({1, 1, 2});
  if (nodes * kind.per_node % others != 0) nodes *= 3;
  if (*rc::gen::inRange(0, 10) == 0 && std::string_view(kind.topology) == "dgx-h100") {
    return fmt::format(
        "{{topology: topologies/dgx-h100.yaml, nodes: {0}, other_nodes: [{{topology: "
        "topologies/dgx-a100.yaml, nodes: {0}}}]}}",
        nodes);
  }
  return fmt::format("{{topology: topologies/{}.yaml, nodes: {}}}", kind.topology, nodes);
}

std::string& AtHand() {
  static std::string plan;
  return plan;
}

void Say(int signal) {
  if (signal == SIGALRM) std::fputs("this takes too long:\n", stderr);
  std::fputs(AtHand().c_str(), stderr);
  if (signal != SIGABRT) std::_Exit(1);
}

}  // namespace

PlanText AnyPlan() {
  const Framework framework = *rc::gen::elementOf(
      std::vector<Framework>(std::begin(plan::kFrameworks), std::end(plan::kFrameworks)));
  const Axes axes = AnyAxes(framework);
  PlanText plan;
  plan.axes = (axes.tensor > 1 ? 1 : 0) + (axes.context > 1 ? 1 : 0) + (axes.pipeline > 1 ? 1 : 0);
  plan.scenario = fmt::format(
      "stepcast: 1\n"
      "model: {}\n"
      "cluster: {}\n"
      "training: {{sequence_length: 32, micro_batch_size: {}, gradient_accumulation: {},"
      " precision: bf16, optimizer: {}}}\n"
      "parallelism: {{tensor: {}, context: {}, pipeline: {}}}\n"
      "data_parallel: {{framework: {}, zero_stage: {}}}\n",
      *rc::gen::elementOf(std::vector<const char*>(std::begin(kModels), std::end(kModels))),
      AnyCluster(axes), AnyOf<int>({1, 1, 2}), AnyOf<int>({1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12}),
      AnyOf<std::string>({"adamw", "adamw", "adamw", "sgd", "lamb"}), axes.tensor, axes.context,
      axes.pipeline, plan::Name(framework), AnyOf(ZeroStagesOf(framework)));
  plan.settings = AnySettings(framework, axes);
  return plan;
}

PlanText PlanOf(std::uint64_t seed) {
  constexpr int kSize = 100;
  return rc::gen::exec(AnyPlan)(rc::Random(seed), kSize).value();
}

void SayWhenItEnds(const PlanText& plan) {
  AtHand() = Said(plan);
  for (const int signal : {SIGABRT, SIGSEGV, SIGALRM}) std::signal(signal, Say);
}

std::string Said(const PlanText& plan) {
  return fmt::format("{}{}\n", plan.scenario, fmt::join(plan.settings, "\n"));
}

std::uint64_t NumberFrom(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

}  // namespace stepcast
