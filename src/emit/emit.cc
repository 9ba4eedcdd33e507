#include "src/emit/emit.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/data_type.h"
#include "src/base/files.h"
#include "src/base/quantity.h"
#include "src/emit/trainers.h"
#include "src/model/model.h"
#include "src/plan/plan.h"
#include "src/scenario/data_root.h"
#include "src/scenario/memory_document.h"
#include "src/scenario/model_file.h"
#include "src/scenario/plan_file.h"

namespace stepcast::emit {
namespace {

namespace fs = std::filesystem;
using scenario::Resolved;

// The paths of the scenario's inputs: model, topology, profile, schedule.
std::vector<std::string> NamedInputs(const Resolved& resolved) {
  std::vector<std::string> paths;
  const auto find = [](const Resolved& tree, std::string_view key) -> const Resolved* {
    const auto* mapping = std::get_if<Resolved::Mapping>(&tree.value);
    if (mapping == nullptr) return nullptr;
    for (const auto& [name, value] : *mapping) {
      if (name == key) return &value;
    }
    return nullptr;
  };
  const auto add = [&](const Resolved* tree) {
    if (tree == nullptr) return;
    if (const auto* path = std::get_if<std::string>(&tree->value)) paths.push_back(*path);
  };
  add(find(resolved, "model"));
  if (const Resolved* cluster = find(resolved, "cluster")) add(find(*cluster, "topology"));
  add(find(resolved, "calibration"));
  if (const Resolved* axes = find(resolved, "parallelism")) {
    const Resolved* schedule = find(*axes, "schedule");
    const auto* name = schedule == nullptr ? nullptr : std::get_if<std::string>(&schedule->value);
    if (name != nullptr && name->ends_with(".csv")) paths.push_back(*name);
  }
  return paths;
}

// Whether a relative path leads out of its starting folder.
bool LeavesFolder(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return normal.empty() || *normal.begin() == "..";
}

// Input files to be copied: those named relative to the scenario's own folder.
tl::expected<std::vector<File>, FolderFailure> Inputs(const scenario::Scenario& scenario,
                                                      const std::string& source) {
  std::vector<File> files;
  const bool in_memory = scenario::MemoryDocument::Find(source) != nullptr;
  const std::string found = scenario::FindInput(source, "").value_or(source);
  const std::string folder = in_memory ? "" : scenario::FolderOf(found);
  for (const std::string& path : NamedInputs(scenario.resolved)) {
    if (path.empty() || path.front() == '/') continue;
    const fs::path beside = fs::path(folder) / path;
    std::error_code error;
    if (!fs::exists(beside, error)) continue;  // then it is in the data root
    if (LeavesFolder(path)) {
      return tl::unexpected(FolderFailure{
          {{"file.outside",
            {found, 0, 0},
            fmt::format("the scenario refers to a file outside of the scenario's folder: {}",
                        Quoted(path)),
            "set an absolute path with --set, or move the file into the folder of the scenario"}},
          ""});
    }
    const bool known = std::any_of(files.begin(), files.end(),
                                   [&](const File& file) { return file.name == path; });
    if (known) continue;
    Diagnostics diagnostics;
    std::optional<std::string> text = ReadAnyFile(beside.string(), diagnostics);
    if (!text) return tl::unexpected(FolderFailure{std::move(diagnostics), ""});
    files.push_back({path, *std::move(text)});
  }
  return files;
}

// When the training loop waits for the device.
const char* Describe(plan::HostWaits waits) {
  switch (waits) {
    case plan::HostWaits::kNever:
      return "the training loop must never read a value from the device";
    case plan::HostWaits::kStep:
      return "the training loop must read a value from the device at the end of each step";
    case plan::HostWaits::kUpdate:
      return "the training loop must read a value from the device before each update";
    case plan::HostWaits::kMicroBatch:
      return "the training loop must read a value from the device after each backward pass";
    case plan::HostWaits::kPhase:
      return "the training loop must synchronize after every forward pass, every backward pass and "
             "the update";
    case plan::HostWaits::kLaunch:
      return "launch.sh sets CUDA_LAUNCH_BLOCKING=1, so the host waits for each launched kernel";
  }
  return "";
}

// Notes for data loading and checkpoint saving.
std::vector<std::string> HostNotes(const plan::Training& training) {
  std::vector<std::string> notes;
  if (const auto& loading = training.data_loading) {
    std::string ahead;
    if (loading->workers > 0) ahead = fmt::format(", prefetch_factor {}", loading->prefetch);
    notes.push_back(fmt::format(
        "the data are loaded by a DataLoader with num_workers {}{} and pin_memory {}; one process "
        "prepares a micro-batch in {}",
        loading->workers, ahead, loading->pin_memory ? "True" : "False", ExactTime(loading->time)));
  }
  if (const auto& saving = training.checkpoint_saving) {
    notes.push_back(
        fmt::format("a checkpoint is saved every {} steps ({}), with a bandwidth of {} per node",
                    saving->every, plan::Name(saving->mode), ExactBandwidth(saving->bandwidth)));
  }
  return notes;
}

// deepspeed/runtime/engine.py, _configure_basic_optimizer: the optimizer for "type": "AdamW".
const char* DeepSpeedOptimizer(const plan::Training& training,
                               const plan::DataParallel& data_parallel) {
  if (training.optimizer == plan::Optimizer::kSgd) return "torch.optim.SGD with momentum";
  if (training.optimizer == plan::Optimizer::kAdamW8bit) return "bitsandbytes.optim.AdamW8bit";
  if (data_parallel.deepspeed.offload_optimizer != plan::OffloadDevice::kNone) {
    return "deepspeed.ops.adam.DeepSpeedCPUAdam";
  }
  return training.optimizer_implementation == plan::OptimizerImplementation::kForeach
             ? "torch.optim.AdamW"
             : "deepspeed.ops.adam.FusedAdam";
}

// How ranks divide the model, without data parallelism; empty if they do not divide it.
std::string Divided(const plan::Parallelism& axes) {
  std::vector<std::string> parts;
  if (axes.tensor > 1) {
    parts.push_back(fmt::format("tensor {}{}", axes.tensor,
                                axes.sequence_parallel ? " with sequence parallelism" : ""));
  }
  if (axes.context > 1) {
    parts.push_back(fmt::format("context {} ({})", axes.context, model::Name(axes.context_method)));
  }
  if (axes.pipeline > 1) {
    parts.push_back(fmt::format("pipeline {} ({}, {} blocks)", axes.pipeline, axes.schedule,
                                fmt::join(axes.stage_layers, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Requirements on the model's code. `own_blocks`: the training program does not define the blocks.
std::vector<std::string> ModelNotes(const scenario::Scenario& scenario, bool own_blocks) {
  std::vector<std::string> notes;
  const plan::Training& training = scenario.plan.training;
  const auto note = [&](std::string text) { notes.push_back(std::move(text)); };
  if (const model::Lora& lora = training.lora; lora.adapts()) {
    note(
        fmt::format("the model's code must have LoRA adapters (rank {}, on {}, dropout {}) and "
                    "frozen parameters in {}, like models of Hugging Face's PEFT",
                    lora.rank, model::Text(lora.targets), lora.dropout, Name(lora.frozen_dtype)));
  }
  if (training.masked_tokens > 0) {
    note(
        fmt::format("the head predicts only the {} masked tokens of each sequence; the model's "
                    "code must gather the masked tokens first",
                    training.masked_tokens));
  }
  if (training.document_length > 0) {
    note(
        fmt::format("the data loader must pack documents of {} tokens into sequences, and "
                    "attention must not cross document boundaries",
                    training.document_length));
  }
  if (training.lengths) {
    note(fmt::format(
        "the data loader must deliver samples that are {}; samples have {:.0f} tokens on average "
        "and at most {} tokens",
        training.lengths->batching == plan::Batching::kPacked ? "packed"
        : training.lengths->batching == plan::Batching::kPadded
            ? "padded to the longest sample of the micro-batch"
            : "batched with samples of similar length",
        model::MeanLength(training.lengths->histogram), training.lengths->histogram.back().tokens));
  }
  if (own_blocks && training.activation_checkpointing != model::Checkpointing::kNone) {
    const model::Share& blocks = training.checkpointed_blocks;
    note(
        fmt::format("the model's code must apply activation checkpointing ({}, {} blocks), except "
                    "with torchtitan",
                    model::Name(training.activation_checkpointing),
                    training.blocks_per_checkpoint > 1
                        ? fmt::format("checkpoints of {}", training.blocks_per_checkpoint)
                    : blocks.all()     ? std::string("all")
                    : blocks.first > 0 ? fmt::format("the {}", model::Text(blocks))
                                       : fmt::format("{} of the", model::Text(blocks))));
  }
  const auto* architecture = std::get_if<model::Architecture>(&scenario.model->source);
  if (!own_blocks && architecture != nullptr && !architecture->kinds.empty()) {
    note(
        "the model file has no values for --rotary-base, --rotary-percent, --norm-epsilon or "
        "--moe-router-topk-scaling-factor. Copy these values from the model's config.json into "
        "megatron.args");
  }
  if (own_blocks && architecture != nullptr) {
    note(
        fmt::format("the model's code must select attention ({}) and cross entropy ({}), except "
                    "with torchtitan",
                    model::Name(training.attention), model::Name(training.loss)));
  }
  return notes;
}

// Settings that deepspeed.json cannot express.
std::vector<std::string> DeepSpeedNotes(const scenario::Scenario& scenario) {
  std::vector<std::string> notes;
  const plan::Training& training = scenario.plan.training;
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const auto note = [&](std::string text) { notes.push_back(std::move(text)); };
  if (const std::string divided = Divided(scenario.plan.parallelism); !divided.empty()) {
    note(fmt::format(
        "deepspeed.json cannot express {}. The training script must create the process groups, and "
        "pass the groups to deepspeed.initialize (as mpu, or as a PipelineModule with its "
        "topology). The batch sizes in deepspeed.json include only data-parallel ranks",
        divided));
  }
  if (const plan::Mixture& mixture = scenario.plan.mixture;
      mixture.implementation == model::ExpertImplementation::kDeepSpeed) {
    const auto& architecture = std::get<model::Architecture>(scenario.model->source);
    note(fmt::format(
        "deepspeed.json cannot express experts. The model's code must use "
        "deepspeed.moe.layer.MoE(num_experts={}, ep_size={}, k={}, capacity_factor={}, "
        "min_capacity={}). The optimizer must get its parameters from "
        "deepspeed.moe.utils.split_params_into_different_moe_groups_for_optimizer",
        architecture.experts.count, scenario.plan.parallelism.expert,
        architecture.experts.per_token, *mixture.capacity_factor, mixture.min_capacity));
  }
  if (training.activation_offload) {
    note(
        "cpu_checkpointing in deepspeed.json applies to blocks that the model runs under "
        "deepspeed.checkpointing.checkpoint. In the plan, copies overlap kernels, but the copies "
        "of cpu_checkpointing do not overlap kernels");
  }
  note(
      fmt::format("the training script must create the optimizer, {}, with a learning rate, and "
                  "pass the optimizer to deepspeed.initialize",
                  DeepSpeedOptimizer(training, data_parallel)));
  if (data_parallel.deepspeed.offload_optimizer == plan::OffloadDevice::kNvme ||
      data_parallel.deepspeed.offload_param == plan::OffloadDevice::kNvme) {
    note("nvme_path in deepspeed.json must be the path of a folder on each node's drives");
  }
  return notes;
}

// Settings that no emitted file can express, for the person who trains.
std::vector<std::string> Notes(const scenario::Scenario& scenario) {
  std::vector<std::string> notes;
  const plan::Training& training = scenario.plan.training;
  const auto note = [&](std::string text) { notes.push_back(std::move(text)); };
  const Trainer& trainer = TrainerOf(scenario.plan);
  for (std::string& text : ModelNotes(scenario, !trainer.takes_megatron_args)) {
    note(std::move(text));
  }
  if (training.autocast && plan::IsFsdp(scenario.plan.data_parallel.framework)) {
    note("the training loop must run the model's forward pass under torch.autocast");
  }
  if (trainer.module != nullptr) {
    if (training.gradient_clipping) {
      note("the training loop must call clip_gradients(model) before each update");
    }
    if (training.activation_offload) {
      note(
          "all blocks except the last block must run the forward pass in keep_on_host(block). In "
          "the plan, copies overlap kernels, but torch's copies do not overlap kernels");
    }
  }
  if (training.precision == DataType::kTf32) {
    note("launch.sh allows TF32; without launch.sh, set torch.backends.cuda.matmul.allow_tf32");
  }
  if (scenario.plan.software.expandable_segments) {
    note("launch.sh turns on expandable segments; without launch.sh, set PYTORCH_CUDA_ALLOC_CONF");
  }
  if (trainer.takes_deepspeed_json) {
    for (std::string& text : DeepSpeedNotes(scenario)) note(std::move(text));
  }
  note(fmt::format("a sequence has {} tokens, and a step has {} sequences",
                   training.sequence_length, training.global_batch_size));
  note(Describe(training.host_waits));
  for (std::string& text : HostNotes(training)) note(std::move(text));
  note("the plan does not include a learning rate, data or checkpoints");
  return notes;
}

std::string Readme(const scenario::Scenario& scenario, const std::vector<File>& files,
                   const Emission& emission) {
  std::string text = fmt::format(
      "# {}\n\n"
      "A training plan, written by `stepcast`.\n\n"
      "`plan.json` contains the complete plan. `stepcast simulate`, `execute` and `validate` "
      "accept `plan.json`\n"
      "instead of a scenario. The plan is for torch {}.{} and NCCL {}.{}.\n\n",
      scenario.name, scenario.plan.software.torch.major, scenario.plan.software.torch.minor,
      scenario.plan.software.nccl.major, scenario.plan.software.nccl.minor);
  const plan::Training& training = scenario.plan.training;
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const std::string divided = Divided(scenario.plan.parallelism);
  text += fmt::format(
      "The plan: {}, ZeRO stage {}, {} data-parallel ranks{}{}; micro-batches of {} x {} tokens, "
      "{} in a step;\nactivation checkpointing: {}. To forecast the plan: `stepcast simulate "
      "plan.json`.\n\n",
      plan::Name(data_parallel.framework), data_parallel.zero_stage, scenario.plan.parallelism.data,
      divided.empty() ? "" : ", ", divided, training.micro_batch_size, training.sequence_length,
      training.gradient_accumulation, model::Name(training.activation_checkpointing));
  text += "Files:\n\n";
  for (const File& file : files) text += fmt::format("- `{}`\n", file.name);
  if (!emission.left_out.empty()) {
    text += "\nNot written:\n\n";
    for (const auto& [name, reason] : emission.left_out) {
      text += fmt::format("- `{}`: {}\n", name, reason);
    }
  }
  text += "\nNotes:\n\n";
  for (const std::string& note : Notes(scenario)) text += fmt::format("- {}\n", note);
  return text;
}

}  // namespace

tl::expected<void, FolderFailure> CheckInputs(const scenario::Scenario& scenario,
                                              const std::string& source) {
  if (auto inputs = Inputs(scenario, source); !inputs) {
    return tl::unexpected(std::move(inputs.error()));
  }
  return {};
}

tl::expected<Emission, FolderFailure> Emit(const scenario::Scenario& scenario,
                                           const std::string& source, const std::string& path,
                                           bool force) {
  const auto constants = scenario::ModelConstantsOf(scenario, source);
  if (!constants) return tl::unexpected(FolderFailure{constants.error(), ""});
  Emission emission;
  std::vector<File> files;
  files.push_back({"plan.json", JsonText(scenario::PlanOf(scenario.resolved))});
  const char* framework = plan::Name(scenario.plan.data_parallel.framework);
  const bool pytorch = TrainerOf(scenario.plan).module != nullptr;
  const std::string settings = pytorch ? fmt::format("pytorch_{}.py", framework) : "pytorch.py";
  const auto add = [&](std::string name, Target target, bool executable) {
    if (target) {
      files.push_back({std::move(name), *std::move(target), executable});
    } else {
      emission.left_out.emplace_back(std::move(name), std::move(target.error()));
    }
  };
  add("deepspeed.json", DeepSpeedConfig(scenario), false);
  add(settings, PytorchSettings(scenario), false);
  add("torchtitan.toml", TorchtitanConfig(scenario, *constants), false);
  add("megatron.args", MegatronArguments(scenario, *constants), false);
  add("launch.sh", LaunchScript(scenario, *constants), true);
  add("job.sbatch", BatchScript(scenario, *constants), true);

  auto inputs = Inputs(scenario, source);
  if (!inputs) return tl::unexpected(std::move(inputs.error()));
  for (File& input : *inputs) {
    const bool taken = input.name == "README.md" || input.name == kManifest ||
                       std::any_of(files.begin(), files.end(),
                                   [&](const File& file) { return file.name == input.name; });
    if (taken) {
      return tl::unexpected(FolderFailure{
          {{"file.exists",
            {source, 0, 0},
            fmt::format("an input file of the scenario has the same name as an output file: {}",
                        Quoted(input.name)),
            "rename the input file"}},
          ""});
    }
    files.push_back(std::move(input));
  }
  files.push_back({"README.md", Readme(scenario, files, emission)});
  if (auto written = WriteFolder(path, files, force); !written) {
    return tl::unexpected(std::move(written.error()));
  }
  for (const File& file : files) emission.written.push_back(file.name);
  emission.written.emplace_back(kManifest);
  return emission;
}

std::string Describe(const Emission& emission, const std::string& path) {
  std::string text =
      fmt::format("stepcast: wrote {} into {}\n", fmt::join(emission.written, ", "), path);
  for (const auto& [name, reason] : emission.left_out) {
    text += fmt::format("  not {}: {}\n", name, reason);
  }
  return text;
}

}  // namespace stepcast::emit
