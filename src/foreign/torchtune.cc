#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"

namespace stepcast::foreign {
namespace {

// The Hub's name for a builder function: llama-3.1-8b for
// torchtune.models.llama3_1.lora_llama3_1_8b, and qwen2.5-7b-instruct for
// torchtune.models.qwen2_5.qwen2_5_7b_instruct.
std::string HubNameOf(const std::string& component) {
  std::string name = component.substr(component.rfind('.') + 1);
  for (const std::string_view kind : {"qlora_", "lora_"}) {
    if (name.starts_with(kind)) name.erase(0, kind.size());
  }
  // A digit after the family's digit follows a decimal point, unless it is a size.
  for (std::size_t at = 1; at + 1 < name.size(); ++at) {
    const std::size_t end = name.find_first_not_of("0123456789", at + 1);
    const bool size = end != std::string::npos && name[end] == 'b';
    const auto digit = [&](std::size_t i) { return name[i] >= '0' && name[i] <= '9'; };
    if (name[at] == '_' && digit(at - 1) && digit(at + 1) && !size) name[at] = '.';
  }
  std::replace(name.begin(), name.end(), '_', '-');
  for (const std::string_view family : {"llama", "gemma", "phi"}) {
    if (name.starts_with(family) && name.size() > family.size() && name[family.size()] != '-') {
      name.insert(family.size(), "-");
    }
  }
  return name;
}

void ReadModel(Reading& reading) {
  const std::string_view option = "model._component_";
  const std::string component = reading.Text(option);
  if (component.empty() || reading.draft().Has("model")) return;
  if (component.find(".qlora_") != std::string::npos) {
    reading.Omit(option, "frozen parameters are stored in 16 bits, without quantization");
  }
  const std::string name = HubNameOf(component);
  if (const auto shipped = ModelOfTheHub(name)) {
    reading.Set("model", *shipped, option, component);
  } else {
    reading.draft().NameModel(component);
  }
}

void ReadAdapters(Reading& reading) {
  const auto rank = reading.Integer("model.lora_rank");
  if (!rank) return;
  const std::string_view option = "model.lora_attn_modules";
  std::vector<std::string> targets;
  if (const Setting* modules = reading.Stated(option)) targets = modules->value.Words();
  std::replace(targets.begin(), targets.end(), std::string("output_proj"), std::string("o_proj"));
  if (reading.IsOn("model.apply_lora_to_mlp")) {
    targets.insert(targets.end(), {"gate_proj", "up_proj", "down_proj"});
  }
  reading.Set("training.lora.rank", *rank, "model.lora_rank");
  reading.Set("training.lora.targets", fmt::format("{}", fmt::join(targets, " ")), option);
  reading.SetNumber("training.lora.dropout", "model.lora_dropout");
}

// A recipe for one device shards nothing. No file states its recipe.
void ReadSharding(Reading& reading) {
  const bool alone = reading.devices() == 1;
  Draft& draft = reading.draft();
  draft.Assume(
      "data_parallel.framework", alone ? "ddp" : "fsdp2",
      alone ? "the recipe supports only one device" : "the torchtune recipes for several devices");
  draft.Assume("data_parallel.zero_stage", alone ? "0" : "3",
               alone ? "the recipe supports only one device" : "fully_shard");
  ReadDegrees(reading, {.shard = "data_parallel_shard_dim",
                        .replicate = "data_parallel_replicate_dim",
                        .tensor = "tensor_parallel_dim",
                        .context = "context_parallel_dim",
                        .expert = ""});
  if (!alone) return;
  for (const char* key : {"data_parallel.cpu_offload", "data_parallel.reshard_after_forward",
                          "training.optimizer_in_backward"}) {
    draft.TakeOut(key);
  }
  if (reading.IsOn("optimizer_in_bwd")) {
    reading.Omit("optimizer_in_bwd",
                 "gradients are stored until the update, so the memory forecast is too high");
  }
}

void ReadOptimizer(Reading& reading) {
  const std::string_view option = "optimizer._component_";
  const std::string component = reading.Text(option);
  const std::string name = component.substr(component.rfind('.') + 1);
  const std::string_view key = "training.optimizer";
  if (name == "SGD") {
    reading.Set(key, "sgd", option);
  } else if (name.find("8bit") != std::string::npos) {
    reading.Set(key, "adamw_8bit", option);
    if (name.starts_with("Paged"))
      reading.Omit(option, "optimizer states remain in the memory of the device");
  } else {
    reading.Set(key, "adamw", option);
    if (name.starts_with("Paged")) {
      reading.Omit(option, "optimizer states remain in the memory of the device");
    } else if (name != "AdamW" && name != "Adam") {
      reading.Omit(option, "the optimizer is AdamW");
    } else if (reading.IsOn("optimizer.fused")) {
      reading.Set("training.optimizer_implementation", "fused", "optimizer.fused");
    }
  }
  reading.SetNumber("training.gradient_clipping", "clip_grad_norm");
}

// Both of torchtune's chunked losses keep the logits of all chunks for the backward pass. Only
// their FP32 copies exist one at a time (torchtune/modules/loss/ce_chunked_output_loss.py,
// cross_entropy_loss.py).
void ReadLoss(Reading& reading) {
  const std::string_view option = "loss._component_";
  const std::string component = reading.Text(option);
  if (component.ends_with("Liger") || component.find("LigerLinear") != std::string::npos) {
    ReadHubChunkedLoss(reading, option, "chunked");
  } else if (component.find("Chunked") != std::string::npos ||
             component.find("LinearCrossEntropy") != std::string::npos) {
    reading.Omit(option,
                 "an FP32 copy of all logits is in memory at once, so the memory forecast is too "
                 "high. For a lower bound, set training.loss=chunked");
  }
}

void Rules(Reading& reading) {
  ReadModel(reading);
  ReadAdapters(reading);
  reading.Apply("precision");
  reading.Apply("recomputation");
  ReadSharding(reading);
  ReadOptimizer(reading);
  ReadLoss(reading);
  reading.Apply("compile");
  ReadBatching(reading, reading.IsOn("dataset.packed") ? "packed" : "padded", "dataset.packed");
}

}  // namespace

const Framework kTorchtune = {.name = "torchtune",
                              .form = "torchtune's recipes (YAML)",
                              .release = "015b39c745a2",
                              .table = Program<TorchtuneTable>,
                              .rules = Rules};

bool IsTorchtune(const Document& document) {
  return document.Has("model._component_") &&
         (document.Has("optimizer._component_") || document.Has("tokenizer._component_"));
}

}  // namespace stepcast::foreign
