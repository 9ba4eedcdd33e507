#include <algorithm>
#include <iterator>
#include <utility>

#include "src/emit/trainers.h"

namespace stepcast::emit {
namespace {

using scenario::Resolved;
using Mapping = Resolved::Mapping;

Resolved Text(std::string_view text) { return {std::string(text)}; }

Resolved Offload(plan::OffloadDevice device) {
  Mapping mapping{{"device", Text(plan::Name(device))}, {"pin_memory", Resolved{true}}};
  // The mount point of the drives depends on the cluster; README.md tells the user to set it.
  if (device == plan::OffloadDevice::kNvme) mapping.emplace_back("nvme_path", Text("/local_nvme"));
  return {std::move(mapping)};
}

// deepspeed/module_inject/auto_ep_config.py: finds the layers by the model's type.
Resolved AutoEp(const plan::Plan& plan) {
  const bool grouped = plan.mixture.products == model::ExpertProducts::kGrouped;
  return {Mapping{{"enabled", Resolved{true}},
                  {"autoep_size", Resolved{plan.parallelism.expert}},
                  {"use_grouped_mm", Resolved{grouped}}}};
}

Resolved Zero(const plan::DataParallel& data_parallel) {
  const int stage = data_parallel.zero_stage;
  Mapping zero{{"stage", Resolved{std::int64_t{stage}}}};
  if (stage > 0) zero.emplace_back("overlap_comm", Resolved{data_parallel.overlap});
  for (const auto& setting : plan::kDeepSpeedSizes) {
    if (!setting.HasEffect(stage)) continue;
    zero.emplace_back(setting.key, Resolved{data_parallel.deepspeed.*setting.value});
  }
  for (const auto& setting : plan::kDeepSpeedSwitches) {
    if (!setting.HasEffect(stage)) continue;
    zero.emplace_back(setting.key, Resolved{data_parallel.deepspeed.*setting.value});
  }
  for (const auto& setting : plan::kDeepSpeedOffload) {
    const plan::OffloadDevice device = data_parallel.deepspeed.*setting.value;
    if (!setting.HasEffect(stage) || device == plan::OffloadDevice::kNone) continue;
    zero.emplace_back(setting.key, Offload(device));
  }
  return {std::move(zero)};
}

// Settings of the plan that DeepSpeed cannot express, for `stepcast init` to read back. DeepSpeed
// ignores unknown keys (deepspeed/runtime/config.py, _initialize_params).
Resolved OfThePlan(const scenario::Scenario& scenario) {
  constexpr std::string_view kSections[] = {"software", "training", "parallelism", "experts"};
  constexpr std::string_view kSaid[] = {
      "micro_batch_size", "gradient_accumulation", "precision",         "gradient_dtype",
      "reduce_dtype",     "activation_offload",    "gradient_clipping", "data"};
  Mapping sections;
  for (const auto& [section, keys] : std::get<Mapping>(scenario.resolved.value)) {
    if (std::find(std::begin(kSections), std::end(kSections), section) == std::end(kSections)) {
      continue;
    }
    Mapping own = std::get<Mapping>(keys.value);
    std::erase_if(own, [&](const auto& entry) {
      return std::find(std::begin(kSaid), std::end(kSaid), entry.first) != std::end(kSaid);
    });
    sections.emplace_back(section, Resolved{std::move(own)});
  }
  return {std::move(sections)};
}

}  // namespace

Target DeepSpeedConfig(const scenario::Scenario& scenario) {
  const plan::Training& training = scenario.plan.training;
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  if (!TrainerOf(scenario.plan).takes_deepspeed_json) {
    return CannotRun("the plan's framework is not deepspeed");
  }
  if (IsQuantized(training.precision)) {
    return CannotRun(
        "DeepSpeed's configuration cannot express matrix multiplications in 8 or 4 bits: "
        "training.precision");
  }
  if (training.activation_offload &&
      (training.activation_checkpointing != model::Checkpointing::kFull ||
       !training.checkpointed_blocks.all())) {
    return CannotRun(
        "DeepSpeed offloads only the inputs of checkpointed blocks, so activation_offload needs "
        "activation_checkpointing: full for all blocks");
  }
  Mapping root;
  root.emplace_back("train_batch_size", Resolved{training.global_batch_size});
  root.emplace_back("train_micro_batch_size_per_gpu", Resolved{training.micro_batch_size});
  root.emplace_back("gradient_accumulation_steps", Resolved{training.gradient_accumulation});
  // TF32 products are a setting of PyTorch, made in launch.sh.
  if (plan::ComputeType(training.precision) != DataType::kFp32) {
    root.emplace_back(std::string(Name(training.precision)),
                      Resolved{Mapping{{"enabled", Resolved{true}}}});
  }
  if (training.gradient_dtype != training.parameter_dtype) {
    root.emplace_back("data_types",
                      Resolved{Mapping{{"grad_accum_dtype", Text(Name(training.gradient_dtype))}}});
  }
  root.emplace_back("communication_data_type", Text(Name(training.reduce_dtype)));
  root.emplace_back("zero_optimization", Zero(data_parallel));
  if (scenario.plan.mixture.implementation == model::ExpertImplementation::kAutoEp) {
    root.emplace_back("expert_parallel", AutoEp(scenario.plan));
  }
  // No "optimizer": DeepSpeed would create it with its own learning rate, betas and weight decay
  // instead of the trainer's. README.md states the plan's optimizer.
  if (training.optimizer != plan::Optimizer::kAdamW) {
    root.emplace_back("zero_allow_untested_optimizer", Resolved{true});
  }
  if (training.activation_offload) {
    // For blocks that the model runs in deepspeed.checkpointing.checkpoint.
    root.emplace_back("activation_checkpointing",
                      Resolved{Mapping{{"cpu_checkpointing", Resolved{true}}}});
  }
  root.emplace_back("stepcast_settings", OfThePlan(scenario));
  std::vector<std::pair<std::string, double>> decimals;
  if (training.gradient_clipping) {
    decimals.emplace_back("gradient_clipping", *training.gradient_clipping);
  }
  return JsonText(Resolved{std::move(root)}, decimals);
}

Target LaunchDeepSpeed(const scenario::Scenario&, const model::NumericalConstants&) {
  return "# TRAIN is your training script, which must accept the arguments of DeepSpeed.\n"
         "set -- \"${TRAIN:?set TRAIN to your training script}\" --deepspeed \\\n"
         "  --deepspeed_config \"$here/deepspeed.json\" \"$@\"\n";
}

}  // namespace stepcast::emit
