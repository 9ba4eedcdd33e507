#include <string>

#include "fmt/format.h"
#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"
#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

// Returns the words of the Trainer's option fsdp, which can be a list. Empty without FSDP.
std::string FsdpWords(const Reading& reading) {
  const Setting* fsdp = reading.Stated("fsdp");
  if (fsdp == nullptr) return {};
  std::string words = fsdp->value.text;
  for (const std::string& item : fsdp->value.items) words += " " + item;
  return words == "false" || words == "False" ? std::string() : words;
}

// Whether ReadFsdp decides the type of the parameters, whichever type they are loaded in.
bool IsConvertedByFsdp(const Reading& reading) {
  const std::string precision = reading.accelerate_option("mixed_precision");
  const bool mixed =
      reading.IsOn("bf16") || reading.IsOn("fp16") || (!precision.empty() && precision != "no");
  return mixed &&
         (!FsdpWords(reading).empty() || reading.accelerate_option("distributed_type") == "FSDP");
}

void ReadTypes(Reading& reading) {
  reading.Apply("precision");
  // DeepSpeed keeps them in its compute type.
  if (reading.under_deepspeed()) return;
  const std::string_view type = reading.Stated("dtype") != nullptr ? "dtype" : "torch_dtype";
  const std::string named = reading.Text(type);
  constexpr std::string_view kTypes = "bfloat16=bf16 float16=fp16 float32=fp32";
  if (reading.IsOn("pure_bf16")) {
    reading.Set("training.parameter_dtype", "bf16", "pure_bf16");
  } else if (IsConvertedByFsdp(reading)) {
    return;
  } else if (const auto word = WordFor(kTypes, named)) {
    reading.Set("training.parameter_dtype", std::string(*word), type);
  } else {
    reading.draft().Assume(
        "training.parameter_dtype", "fp32",
        "assumed: the parameters are loaded in FP32, and autocast casts the parameters");
  }
}

// Applies if neither DeepSpeed nor accelerate decides.
void ReadSharding(Reading& reading) {
  if (reading.has_file_of("DeepSpeed")) return;
  const std::string named = FsdpWords(reading);
  if (named.empty()) {
    if (reading.has_file_of("accelerate")) return;
    reading.draft().Assume("data_parallel.framework", "ddp",
                           "transformers' Trainer uses neither DeepSpeed nor FSDP");
    reading.draft().Assume("data_parallel.zero_stage", "0", "DistributedDataParallel");
    if (const auto size = reading.Integer("ddp_bucket_cap_mb")) {
      reading.Set("data_parallel.bucket_size", fmt::format("{} MiB", *size), "ddp_bucket_cap_mb");
    }
    return;
  }
  ReadFsdp(reading, "fsdp");
  if (named.find("offload") != std::string::npos) {
    reading.Set("data_parallel.cpu_offload", "true", "fsdp");
  }
  if (named.find("shard_grad_op") != std::string::npos) {
    reading.Omit("fsdp",
                 "parameters are freed after the forward pass; to keep the parameters, set "
                 "data_parallel.zero_stage");
  }
}

// Files read by the launcher and by DeepSpeed are not found automatically.
void AskForFiles(Reading& reading) {
  const std::string_view launcher = "launcher.config_file";
  if (reading.Stated(launcher) != nullptr && !reading.has_file_of("accelerate")) {
    AskForFile(reading, launcher, "accelerate");
  }

  const Setting* named = reading.Stated("deepspeed");
  if (named == nullptr || named->value.text.empty() || reading.has_file_of("DeepSpeed")) return;
  if (const auto on = named->value.Boolean()) {
    if (!*on) return;
    reading.Wrong(
        "deepspeed",
        "DeepSpeed is on, but a DeepSpeed configuration is missing on the command line",
        fmt::format(
            "write the DeepSpeed configuration as JSON, and add its path to the command: {} "
            "ds.json",
            reading.document().file));
    return;
  }
  AskForFile(reading, "deepspeed", "DeepSpeed");
}

// Whether the file belongs to LLaMA-Factory, which adds keys to the Trainer's, and other
// defaults.
bool IsOfFactory(const Reading& reading) {
  return reading.Stated("cutoff_len") != nullptr || reading.Stated("finetuning_type") != nullptr ||
         reading.Stated("template") != nullptr;
}

// The Trainer recomputes on request; LLaMA-Factory does so by default
// (src/llamafactory/model/model_utils/checkpointing.py, prepare_model_for_training).
void ReadCheckpointing(Reading& reading) {
  constexpr const char* kKey = "training.activation_checkpointing";
  if (reading.draft().Find(kKey) != nullptr) return;
  if (reading.IsOn("gradient_checkpointing") || !IsOfFactory(reading)) {
    reading.Set(kKey, reading.IsOn("gradient_checkpointing") ? "full" : "none",
                "gradient_checkpointing");
  } else if (reading.IsOn("disable_gradient_checkpointing")) {
    reading.Set(kKey, "none", "disable_gradient_checkpointing");
  } else {
    reading.Set(kKey, "full", "disable_gradient_checkpointing", "LLaMA-Factory's default");
  }
}

void ReadAdapters(Reading& reading) {
  const std::string type = reading.Text("finetuning_type");
  // LLaMA-Factory trains adapters of rank 8 by default.
  if (type == "lora" && reading.Stated("lora_rank") == nullptr) {
    reading.Set("training.lora.rank", "8", "finetuning_type", "LLaMA-Factory's default");
    reading.Set("training.lora.targets", "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj",
                "finetuning_type", "LLaMA-Factory's default, all");
    return;
  }
  if (type == "full" || type == "freeze") {
    if (type == "freeze") reading.Omit("finetuning_type", "all parameters are trained");
    return;
  }
  if (IsOfFactory(reading)) {
    ReadHubAdapters(reading, "lora_rank", "lora_target", "lora_dropout");
  } else if (reading.IsOn("use_peft")) {
    ReadHubAdapters(reading, "lora_r", "lora_target_modules", "lora_dropout");
  }
}

// By default, Liger's kernels combine the head and the loss; otherwise they fuse only the loss.
// TRL's chunked_nll: trl/trainer/sft_trainer.py.
void ReadLoss(Reading& reading, bool liger, std::string_view by) {
  const std::string type = reading.Text("loss_type");
  const bool chunked_by_trl = type == "chunked_nll";
  if (!chunked_by_trl && type != "nll") {
    reading.Omit("loss_type", "the loss is the cross entropy over all tokens");
  }
  const Setting* joined = reading.Stated("liger_kernel_config.fused_linear_cross_entropy");
  const bool apart = joined != nullptr && !joined->value.Boolean().value_or(true);
  if (liger && apart && !chunked_by_trl) {
    reading.Set("training.loss", "fused", by, "Liger's kernel");
    return;
  }
  if (!liger && !chunked_by_trl) return;
  ReadHubChunkedLoss(reading, chunked_by_trl ? "loss_type" : by, "chunked");
}

// With LLaMA-Factory's packing without neat_packing, attention spans whole sequences
// (src/llamafactory/data/collator.py). So it does with TRL's if samples are cut to fill sequences
// (trl/trainer/sft_config.py, packing_strategy: wrapped).
void ReadLengths(Reading& reading) {
  const std::string order = reading.Text("train_sampling_strategy");
  if (reading.IsOn("neat_packing")) {
    ReadBatching(reading, "packed", "neat_packing");
  } else if (reading.IsOn("packing")) {
    if (IsOfFactory(reading) || reading.Text("packing_strategy") == "wrapped") return;
    ReadBatching(reading, "packed", "packing");
  } else if (reading.IsOn("group_by_length") || order == "group_by_length") {
    ReadBatching(reading, "by_length",
                 order.empty() ? "group_by_length" : "train_sampling_strategy");
  } else {
    ReadBatching(reading, "padded", "packing");
  }
}

void Rules(Reading& reading) {
  ReadHubModel(reading,
               reading.Stated("model_name_or_path") != nullptr ? "model_name_or_path" : "model");
  reading.Apply("batch");
  ReadTypes(reading);
  ReadSharding(reading);
  AskForFiles(reading);
  ReadHubOptimizer(reading, "optim");
  ReadClipping(reading, "max_grad_norm");
  ReadCheckpointing(reading);
  const bool liger = reading.IsOn("use_liger_kernel") || reading.IsOn("enable_liger_kernel");
  const std::string_view by =
      reading.IsOn("use_liger_kernel") ? "use_liger_kernel" : "enable_liger_kernel";
  ReadHubKernels(reading,
                 reading.Stated("flash_attn") != nullptr ? "flash_attn" : "attn_implementation",
                 liger, by);
  reading.SetIfOn("training.attention", "flash", "use_flash_attention_2");
  ReadLoss(reading, liger, by);
  ReadLengths(reading);
  ReadAdapters(reading);
  ReadHubExperts(reading);
  ReadLauncher(reading);
}

}  // namespace

const Framework kTransformers = {.name = "transformers",
                                 .form = "Hugging Face's TrainingArguments (YAML, JSON, shell)",
                                 .release = "v5.0",
                                 .table = Program<TransformersTable>,
                                 .rules = Rules};

std::optional<Document> TransformersDocument(const Document& document) {
  Document named = Spelled(document, '_');
  const bool trains = named.Has("per_device_train_batch_size") ||
                      (named.Has("output_dir") &&
                       (named.Has("model_name_or_path") || named.Has("num_train_epochs"))) ||
                      (named.Has("model_name_or_path") && named.Has("learning_rate"));
  if (!trains) return std::nullopt;
  return named;
}

}  // namespace stepcast::foreign
