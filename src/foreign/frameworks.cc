#include "src/foreign/frameworks.h"

#include <utility>

#include "fmt/format.h"
#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"

namespace stepcast::foreign {
// The file that `accelerate config` writes and `accelerate launch --config_file` reads
// (huggingface/accelerate, src/accelerate/commands/config/config_args.py). It describes how
// processes divide the work, not the training.
extern const Framework kAccelerate;

bool IsAccelerate(const Document& document);

namespace {

void ReadDeepSpeed(Reading& reading) {
  const Setting* file = reading.Stated("deepspeed_config.deepspeed_config_file");
  if (file != nullptr && !reading.has_file_of("DeepSpeed")) {
    return AskForFile(reading, file->name, "DeepSpeed");
  }
  reading.Set("data_parallel.framework", "deepspeed", "distributed_type");
  const std::string_view stage = "deepspeed_config.zero_stage";
  reading.SetInteger("data_parallel.zero_stage", stage);
  for (const auto& [option, key] : {std::pair("deepspeed_config.offload_optimizer_device",
                                              "data_parallel.deepspeed.offload_optimizer"),
                                    std::pair("deepspeed_config.offload_param_device",
                                              "data_parallel.deepspeed.offload_param")}) {
    const std::string device = reading.Text(option);
    if (device == "cpu" || device == "nvme") reading.Set(key, device, option);
  }
  reading.SetNumber("training.gradient_clipping", "deepspeed_config.gradient_clipping");
}

void ReadProcesses(Reading& reading) {
  const auto processes = reading.Integer("num_processes");
  const auto devices = reading.devices();
  if (!processes || *processes < 1 || !devices) return;
  if (*processes < *devices) {
    reading.Set("cluster.devices", *processes, "num_processes");
  } else if (*processes > *devices) {
    reading.draft().Note(
        fmt::format("the configuration {} starts {} processes, but the cluster has {} GPUs",
                    reading.document().file, *processes, *devices));
  }
}

void Rules(Reading& reading) {
  const std::string type = reading.Text("distributed_type");
  if (type == "FSDP") {
    ReadFsdp(reading, "distributed_type");
  } else if (type == "DEEPSPEED") {
    ReadDeepSpeed(reading);
  } else if (type == "MULTI_GPU" || type == "NO") {
    reading.Set("data_parallel.framework", "ddp", "distributed_type");
    reading.Set("data_parallel.zero_stage", "0", "distributed_type");
  } else {
    reading.Omit("distributed_type", "set data_parallel.framework");
  }
  ReadDegrees(reading, {.shard = "parallelism_config.parallelism_config_dp_shard_size",
                        .replicate = "parallelism_config.parallelism_config_dp_replicate_size",
                        .tensor = "parallelism_config.parallelism_config_tp_size",
                        .context = "parallelism_config.parallelism_config_cp_size",
                        .expert = ""});
  reading.Apply("precision");
  ReadProcesses(reading);
  ReadHubExperts(reading);
}

}  // namespace

const Framework kAccelerate = {.name = "accelerate",
                               .form = "accelerate's configuration (YAML)",
                               .release = "v1.12",
                               .table = Program<AccelerateTable>,
                               .rules = Rules,
                               .adds_to_others = true};

bool IsAccelerate(const Document& document) {
  return document.Has("distributed_type") || document.Has("compute_environment");
}

namespace {

constexpr const Framework* kFrameworks[] = {&kTorchtitan, &kTorchtitanPython, &kMegatron,
                                            &kDeepSpeed,  &kTransformers,     &kAccelerate,
                                            &kAxolotl,    &kNanotron,         &kTorchtune};

}  // namespace

std::span<const Framework* const> Frameworks() { return kFrameworks; }

std::optional<Recognised> Recognise(const Document& document) {
  if (document.file.ends_with(".py")) {
    if (IsTorchtitan(document)) return Recognised{&kTorchtitanPython, document};
    if (auto arguments = NemoDocument(document)) {
      return Recognised{&kMegatron, *std::move(arguments)};
    }
    return std::nullopt;
  }
  if (IsTorchtitan(document)) return Recognised{&kTorchtitan, document};
  if (IsAxolotl(document)) return Recognised{&kAxolotl, document};
  if (IsTorchtune(document)) return Recognised{&kTorchtune, document};
  if (IsNanotron(document)) return Recognised{&kNanotron, document};
  if (IsAccelerate(document)) return Recognised{&kAccelerate, document};
  if (IsDeepSpeed(document)) return Recognised{&kDeepSpeed, document};
  if (auto arguments = NemoDocument(document)) {
    return Recognised{&kMegatron, *std::move(arguments)};
  }
  if (auto arguments = TransformersDocument(document)) {
    return Recognised{&kTransformers, *std::move(arguments)};
  }
  if (auto arguments = MegatronDocument(document)) {
    return Recognised{&kMegatron, *std::move(arguments)};
  }
  return std::nullopt;
}

std::string_view OtherProgramOf(const Document& document) {
  for (const auto& [key, position, what] : Table<OtherProgramsTable>().entries) {
    if (document.Has(key)) return what->scalar;
  }
  return {};
}

bool IsScenario(const Document& document) {
  return document.Has("stepcast") || document.Has("stepcast_plan");
}

bool IsTopology(const Document& document) {
  const Setting* const kind = document.Find("kind");
  return document.Has("node.devices") || (kind != nullptr && kind->value.text == "flat");
}

bool IsModelFile(const Document& document) {
  const Setting* const kind = document.Find("kind");
  return kind != nullptr && (kind->value.text == "transformer" || kind->value.text == "layers");
}

bool IsModel(const Document& document) {
  // Models of the diffusers library.
  if (document.Has("_class_name") && document.file.ends_with(".json")) return true;
  // Reading it as a model reports the missing keys.
  const bool named = document.file == "config.json" || document.file.ends_with("/config.json");
  if (named && (document.Has("hidden_size") || document.Has("n_embd"))) return true;
  // A model family's own file may define other names for the dimensions of a config.json.
  return document.Has("model_type") &&
         (document.Has("architectures") || document.Has("hidden_size") || document.Has("n_embd") ||
          document.Has("text_config") || document.file.ends_with(".json"));
}

}  // namespace stepcast::foreign
