#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "fmt/format.h"
#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"

namespace stepcast::foreign {
namespace {

void ReadModel(Reading& reading) {
  if (reading.draft().Find("model") != nullptr) return;
  const bool qwen = reading.IsOn("model.model_config.is_qwen2_config");
  reading.Set("model.kind", "transformer", "model.model_config.hidden_size");
  const std::filesystem::path file(reading.document().file);
  reading.draft().Assume("model.name", file.stem().string(), "the file's name");
  reading.Set("model.family", qwen ? "qwen2" : "llama",
              qwen ? "model.model_config.is_qwen2_config" : "model.model_config.is_llama_config");
  const std::string_view activation = "model.model_config.hidden_act";
  if (reading.Text(activation) != "silu") {
    reading.Omit(activation, "the feed-forward layer is SwiGLU");
  }
  const std::string_view multiple = "model.make_vocab_size_divisible_by";
  const std::int64_t unit =
      std::clamp<std::int64_t>(reading.Integer(multiple).value_or(1), 1, 1'000'000) *
      reading.draft().Degree("parallelism.tensor");
  const auto words = reading.draft().Integer("model.vocab_size");
  if (words && *words % unit != 0) reading.Omit(multiple, "the vocabulary is not padded");
}

void ReadTypes(Reading& reading) {
  const std::string_view option = "model.dtype";
  constexpr std::string_view kTypes =
      "bfloat16=bf16 torch.bfloat16=bf16 float16=fp16 torch.float16=fp16 float32=fp32 "
      "torch.float32=fp32 double=fp32";
  const auto word = WordFor(kTypes, reading.Text(option));
  reading.Set("training.precision", std::string(word.value_or("bf16")), option);
  if (!word) reading.Omit(option, "the model computes in BF16");
}

void ReadAxes(Reading& reading) {
  if (reading.draft().Degree("parallelism.tensor") > 1) {
    const bool divides = reading.Text("parallelism.tp_mode") == "REDUCE_SCATTER" ||
                         reading.Text("parallelism.tp_mode") == "reduce_scatter";
    reading.Set("parallelism.sequence_parallel", divides, "parallelism.tp_mode");
  }
  if (reading.draft().Degree("parallelism.pipeline") > 1) {
    const bool all_forward = reading.Text("parallelism.pp_engine") == "afab";
    reading.Set("parallelism.schedule", all_forward ? "gpipe" : "1f1b", "parallelism.pp_engine");
  }
}

void ReadOptimizer(Reading& reading) {
  const std::string_view option = "optimizer.optimizer_factory.name";
  const bool sgd = reading.Text(option) == "sgd";
  reading.Set("training.optimizer", sgd ? "sgd" : "adamw", option);
  if (!sgd && reading.Text(option) != "adamW") reading.Omit(option, "the optimizer is AdamW");
  const std::string_view fused = "optimizer.optimizer_factory.torch_adam_is_fused";
  if (!sgd) {
    reading.Set("training.optimizer_implementation", reading.IsOn(fused) ? "fused" : "foreach",
                fused);
  }
  ReadClipping(reading, "optimizer.clip_grad");
}

void Rules(Reading& reading) {
  ReadModel(reading);
  ReadTypes(reading);
  ReadAxes(reading);
  ReadOptimizer(reading);
  reading.Set("data_parallel.framework", "nanotron", "optimizer.zero_stage");
  const std::int64_t stage = reading.Integer("optimizer.zero_stage").value_or(0);
  reading.Set("data_parallel.zero_stage", stage, "optimizer.zero_stage");
  const std::string_view bucket = "model.ddp_bucket_cap_mb";
  if (const auto size = reading.Integer(bucket); size && stage == 0) {
    reading.Set("data_parallel.bucket_size", fmt::format("{} MiB", *size), bucket);
  }
  const std::string_view recompute = "parallelism.recompute_layer";
  reading.Set("training.activation_checkpointing", reading.IsOn(recompute) ? "full" : "none",
              recompute);
}

}  // namespace

const Framework kNanotron = {.name = "nanotron",
                             .form = "nanotron's configuration (YAML)",
                             .release = "09fd0ece7579",
                             .options = Options<NanotronTable>,
                             .rules = Rules};

bool IsNanotron(const Document& document) {
  return document.Has("tokens") && document.Has("tokens.micro_batch_size") &&
         document.Has("model.model_config");
}

}  // namespace stepcast::foreign
