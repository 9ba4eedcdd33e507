#include "src/foreign/huggingface_names.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/scenario/source_names.h"

namespace stepcast::foreign {
namespace {

// Names on the Hub, in small letters and without what follows: "-instruct", "-hf".
constexpr std::pair<std::string_view, const char*> kHubModels[] = {
    {"meta-llama/llama-3.1-8b", "llama3.1-8b"},
    {"meta-llama/meta-llama-3.1-8b", "llama3.1-8b"},
    {"meta-llama/meta-llama-3-8b", "llama3.1-8b"},
    {"meta-llama/llama-3.1-70b", "llama3.1-70b"},
    {"meta-llama/meta-llama-3.1-70b", "llama3.1-70b"},
    {"meta-llama/meta-llama-3-70b", "llama3.1-70b"},
    {"meta-llama/llama-3.3-70b", "llama3.1-70b"},
    {"meta-llama/llama-3.1-405b", "llama3.1-405b"},
    {"meta-llama/meta-llama-3.1-405b", "llama3.1-405b"},
    {"meta-llama/llama-2-7b", "llama2-7b"},
    {"meta-llama/llama-2-13b", "llama2-13b"},
    {"meta-llama/llama-2-70b", "llama2-70b"},
    {"nousresearch/meta-llama-3.1-8b", "llama3.1-8b"},
    {"nousresearch/meta-llama-3-8b", "llama3.1-8b"},
    {"nousresearch/llama-2-7b", "llama2-7b"},
    {"unsloth/meta-llama-3.1-8b", "llama3.1-8b"},
    {"unsloth/llama-3.1-8b", "llama3.1-8b"},
    {"mistralai/mistral-7b", "mistral-7b"},
    {"mistralai/mixtral-8x7b", "mixtral-8x7b"},
    {"mistralai/mixtral-8x22b", "mixtral-8x22b"},
    {"qwen/qwen3-8b", "qwen3-8b"},
    {"qwen/qwen3-30b-a3b", "qwen3-30b-a3b"},
    {"qwen/qwen3-235b-a22b", "qwen3-235b-a22b"},
    {"deepseek-ai/deepseek-v3", "deepseek-v3"},
    {"deepseek-ai/deepseek-r1", "deepseek-v3"},
    {"deepseek-ai/deepseek-v2-lite", "deepseek-v2-lite"},
    {"moonshotai/kimi-k2", "kimi-k2"},
    {"moonshotai/moonlight-16b-a3b", "moonlight-16b-a3b"},
    {"openai/gpt-oss-20b", "gpt-oss-20b"},
    {"openai/gpt-oss-120b", "gpt-oss-120b"},
    {"zai-org/glm-4.5-air", "glm-4.5-air"},
    {"zai-org/glm-4.5", "glm-4.5"},
    {"meta-llama/llama-4-scout-17b-16e", "llama4-scout"},
    {"meta-llama/llama-4-maverick-17b-128e", "llama4-maverick"},
    {"google/gemma-2-9b", "gemma2-9b"},
    {"google/gemma-3-27b", "gemma3-27b"},
    {"allenai/olmo-2-1124-7b", "olmo2-7b"},
    {"microsoft/phi-4", "phi4"},
    {"eleutherai/gpt-j-6b", "gptj-6b"},
    {"eleutherai/gpt-neox-20b", "gpt-neox-20b"},
    {"eleutherai/pythia-6.9b", "pythia-6.9b"},
    {"tiiuae/falcon-7b", "falcon-7b"},
    {"zai-org/glm-4-9b", "glm-4-9b"},
    {"qwen/qwen1.5-moe-a2.7b", "qwen1.5-moe-a2.7b"},
    {"allenai/olmoe-1b-7b-0924", "olmoe-1b-7b"},
    {"minimaxai/minimax-m2", "minimax-m2"},
    {"mosaicml/mpt-7b", "mpt-7b"},
    {"mosaicml/mpt-30b", "mpt-30b"},
    {"openai-community/gpt2-medium", "gpt2-medium"},
    {"openai-community/gpt2-large", "gpt2-large"},
    {"openai-community/gpt2-xl", "gpt2-xl"},
    {"openai-community/gpt2", "gpt2"},
};

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

void ReadHubModel(Reading& reading, std::string_view option) {
  const std::string name = reading.Text(option);
  if (name.empty() || reading.draft().Has("model")) return;
  // A folder or a config.json, seen from the file that names it or from the working directory.
  const std::string folder = std::filesystem::path(reading.document().file).parent_path().string();
  for (const std::string& from : {folder, std::string()}) {
    const auto found = scenario::FindSource(name, from, scenario::SourceKind::kModel);
    std::error_code error;
    if (!found || !std::filesystem::is_regular_file(*found, error)) continue;
    reading.Set("model", *found, option);
    return;
  }
  const std::string lower = Lower(name);
  for (const auto& [hub, shipped] : kHubModels) {
    const bool same =
        lower.starts_with(hub) && (lower.size() == hub.size() || lower[hub.size()] == '-');
    if (!same) continue;
    reading.Set("model", shipped, option, name);
    return;
  }
  // A file of ours that is called as the model is.
  const std::string last = lower.substr(lower.rfind('/') + 1);
  if (scenario::FindSource(last, "", scenario::SourceKind::kModel)) {
    reading.Set("model", last, option, name);
    return;
  }
  reading.draft().NameModel(name);
}

void ReadHubOptimizer(Reading& reading, std::string_view option) {
  const std::string name = reading.Text(option);
  const std::string_view key = "training.optimizer";
  const std::string_view implementation = "training.optimizer_implementation";
  if (name == "sgd") {
    reading.Set(key, "sgd", option);
    return;
  }
  // transformers/trainer_optimizer.py: bitsandbytes' names and torchao's.
  const bool adamw_8bit = name == "adamw_8bit" || name == "adamw_bnb_8bit" ||
                          name == "adamw_torch_8bit" || name == "paged_adamw_8bit";
  if (adamw_8bit && !reading.has_file_of("DeepSpeed")) {
    reading.Set(key, "adamw_8bit", option);
    if (name.starts_with("paged")) reading.Omit(option, "states stay on the device");
    return;
  }
  reading.Set(key, "adamw", option);
  if (name.find("8bit") != std::string::npos || name.find("4bit") != std::string::npos) {
    reading.Omit(option, "moments are kept in FP32: the forecast of memory is too high");
  } else if (name.find("paged") != std::string::npos) {
    reading.Omit(option, "states stay on the device");
  } else if (!name.starts_with("adam")) {
    reading.Omit(option, "the optimizer is AdamW");
  } else if (name == "adamw_torch_fused" || name == "adamw_apex_fused") {
    // DeepSpeed makes its own optimizer of it.
    if (!reading.has_file_of("DeepSpeed")) reading.Set(implementation, "fused", option);
  }
}

void ReadHubKernels(Reading& reading, std::string_view attention, bool liger,
                    std::string_view because_of) {
  constexpr std::string_view kAttention =
      "flash_attention_2=flash flash_attention_3=flash3 eager=math_fp32 sdpa= auto= fa2=flash "
      "fa3=flash3 disabled=math_fp32 kernels-community/flash-attn2=flash "
      "kernels-community/vllm-flash-attn3=flash3";
  const std::string name = reading.Text(attention);
  if (!name.empty()) {
    const auto word = WordFor(kAttention, name);
    if (!word) {
      reading.Omit(attention, "attention is what PyTorch runs");
    } else if (!word->empty()) {
      reading.Set("training.attention", std::string(*word), attention);
    }
  }
  for (const char* key : {"training.norm", "training.rotary", "training.activation_function"}) {
    if (liger) {
      reading.Set(key, "fused", because_of, "Liger's kernels");
    } else {
      reading.draft().Assume(key, "huggingface", "transformers' own kernels");
    }
  }
}

void ReadHubChunkedLoss(Reading& reading, std::string_view because_of, std::string_view loss) {
  if (reading.draft().Degree("parallelism.tensor") > 1) {
    reading.Omit(because_of,
                 "the logits of a micro-batch are in memory as a whole: too much memory");
    return;
  }
  reading.Set("training.loss", std::string(loss), because_of);
}

void ReadHubAdapters(Reading& reading, std::string_view rank, std::string_view targets,
                     std::string_view dropout) {
  const auto columns = reading.Integer(rank);
  if (!columns) return;
  reading.Set("training.lora.rank", fmt::format("{}", *columns), rank);
  const Setting* stated = reading.Stated(targets);
  std::vector<std::string> names;
  bool all = stated == nullptr;
  if (stated != nullptr) {
    names = stated->value.items;
    if (stated->value.kind == Value::Kind::kText) {
      std::string list = stated->value.text;
      std::replace(list.begin(), list.end(), ',', ' ');
      names = {list};
    }
    all = !names.empty() && (names.front() == "all" || names.front() == "all-linear");
  }
  if (all || names.empty()) {
    names = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  }
  reading.Set("training.lora.targets", fmt::format("{}", fmt::join(names, " ")), targets);
  if (const auto rate = reading.Get(dropout); rate && rate->Number()) {
    reading.Set("training.lora.dropout", ScenarioWords(*rate), dropout);
  }
}

}  // namespace stepcast::foreign
