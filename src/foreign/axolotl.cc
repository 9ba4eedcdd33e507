#include <algorithm>
#include <string>

#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"

namespace stepcast::foreign {
namespace {

void ReadSharding(Reading& reading) {
  if (const Setting* named = reading.Stated("deepspeed")) {
    if (!named->value.text.empty() && !reading.has_file_of("DeepSpeed")) {
      return AskForFile(reading, "deepspeed", "DeepSpeed");
    }
  }
  const auto& settings = reading.document().settings;
  const bool shards =
      reading.Stated("fsdp") != nullptr || reading.Stated("fsdp_version") != nullptr ||
      std::any_of(settings.begin(), settings.end(),
                  [](const Setting& setting) { return setting.name.starts_with("fsdp_config."); });
  if (reading.has_file_of("DeepSpeed")) return;
  if (!shards) {
    reading.draft().Assume("data_parallel.framework", "ddp",
                           "axolotl uses neither DeepSpeed nor FSDP");
    reading.draft().Assume("data_parallel.zero_stage", "0", "DistributedDataParallel");
    reading.draft().Assume("training.parameter_dtype", "bf16",
                           "axolotl loads the model in the data type that the option bf16 selects");
    return;
  }
  ReadFsdp(reading, reading.Stated("fsdp") != nullptr           ? "fsdp"
                    : reading.Stated("fsdp_version") != nullptr ? "fsdp_version"
                                                                : "fsdp_config.fsdp_version");
}

void ReadPlugins(Reading& reading) {
  const Setting* plugins = reading.Stated("plugins");
  if (plugins == nullptr) return;
  for (const std::string& plugin : plugins->value.Words()) {
    const bool known = plugin.find("liger") != std::string::npos ||
                       plugin.find("cut_cross_entropy") != std::string::npos ||
                       plugin.find("expert_parallel") != std::string::npos;
    if (!known) reading.draft().Omit(plugins->location, "plugins: " + plugin, "");
  }
}

// The cut cross entropy plugin is on if it is listed and not switched off
// (axolotl/integrations/cut_cross_entropy/args.py).
void ReadLoss(Reading& reading) {
  const Setting* plugins = reading.Stated("plugins");
  const auto listed = [plugins](std::string_view name) {
    if (plugins == nullptr) return false;
    const std::vector<std::string> all = plugins->value.Words();
    return std::any_of(all.begin(), all.end(),
                       [name](const auto& plugin) { return plugin.find(name) != plugin.npos; });
  };
  const Setting* cut = reading.Stated("cut_cross_entropy");
  if (listed("cut_cross_entropy") && (cut == nullptr || cut->value.Boolean().value_or(true))) {
    ReadHubChunkedLoss(reading, cut == nullptr ? "plugins" : "cut_cross_entropy", "cut");
  } else if (reading.IsOn("liger_fused_linear_cross_entropy")) {
    ReadHubChunkedLoss(reading, "liger_fused_linear_cross_entropy", "chunked");
  } else if (reading.IsOn("liger_cross_entropy")) {
    reading.Set("training.loss", "fused", "liger_cross_entropy", "Liger's kernel");
  } else if (reading.IsOn("flash_attn_cross_entropy")) {
    reading.Set("training.loss", "fused", "flash_attn_cross_entropy", "FlashAttention's kernel");
  }
}

void ReadAdapters(Reading& reading) {
  const std::string adapter = reading.Text("adapter");
  if (adapter.empty()) return;
  ReadHubAdapters(reading, "lora_r", "lora_target_modules", "lora_dropout");
  if (adapter == "qlora")
    reading.Omit("adapter", "frozen parameters are stored in 16 bits, without quantization");
}

void ReadRecomputation(Reading& reading) {
  const std::string_view option = "gradient_checkpointing";
  const std::string mode = reading.Text(option);
  // The value may also name the destination: legacy, disk.
  const std::string where = reading.Text("activation_offloading");
  const bool stated = !where.empty() && where != "false" && where != "False";
  // `unsloth` is the former name of `offload`; axolotl refuses any other word.
  const bool by_mode = mode == "offload" || mode == "offload_disk" || mode == "unsloth";
  const bool offloads = by_mode || stated;
  if (!by_mode && !Value::Text(mode).Boolean()) {
    reading.Omit(
        option,
        "no block is recomputed; to recompute blocks, set training.activation_checkpointing");
  }
  if (reading.draft().Find("training.activation_checkpointing") == nullptr) {
    reading.Set("training.activation_checkpointing",
                reading.IsOn(option) || offloads ? "full" : "none", option);
  }
  if (offloads) {
    reading.Set("training.activation_offload", "true", stated ? "activation_offloading" : option);
  }
}

// Attention is limited to each packed document (axolotl/monkeypatch/multipack.py).
void ReadLengths(Reading& reading) {
  if (reading.IsOn("sample_packing")) {
    ReadBatching(reading, "packed", "sample_packing");
  } else if (reading.IsOn("group_by_length")) {
    ReadBatching(reading, "by_length", "group_by_length");
  } else if (!reading.IsOn("pad_to_sequence_len")) {
    ReadBatching(reading, "padded", "sample_packing");
  }
}

void Rules(Reading& reading) {
  ReadHubModel(reading, "base_model");
  reading.Apply("precision");
  ReadSharding(reading);
  ReadDegrees(reading, {.shard = "dp_shard_size",
                        .replicate = "dp_replicate_size",
                        .tensor = "tensor_parallel_size",
                        .context = reading.Stated("sequence_parallel_degree") != nullptr
                                       ? "sequence_parallel_degree"
                                       : "context_parallel_size",
                        .expert = "expert_parallel_size"});
  ReadHubOptimizer(reading, "optimizer");
  ReadClipping(reading, "max_grad_norm");
  ReadRecomputation(reading);
  reading.SetIfOn("training.compile", "true", "torch_compile");
  reading.Apply("attention");
  ReadHubKernels(reading, "attn_implementation", reading.IsOn("liger_rms_norm"), "liger_rms_norm");
  reading.Apply("norm");
  ReadPlugins(reading);
  ReadLengths(reading);
  ReadLoss(reading);
  ReadAdapters(reading);
  ReadHubExperts(reading);
}

}  // namespace

const Framework kAxolotl = {.name = "axolotl",
                            .form = "axolotl's configuration (YAML)",
                            .release = "067b021c8b87",
                            .table = Program<AxolotlTable>,
                            .rules = Rules};

bool IsAxolotl(const Document& document) {
  return document.Has("base_model") &&
         (document.Has("sequence_len") || document.Has("micro_batch_size") ||
          document.Has("datasets"));
}

}  // namespace stepcast::foreign
