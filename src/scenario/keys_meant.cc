#include "src/scenario/keys_meant.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/scenario/plan_sections.h"

namespace stepcast::scenario {
namespace {

// Words of the field, of DeepSpeed, Megatron-LM, torchtitan and transformers.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {
    {"mbs", "training.micro_batch_size"},
    {"micro_batch", "training.micro_batch_size"},
    {"local_batch_size", "training.micro_batch_size"},
    {"per_device_train_batch_size", "training.micro_batch_size"},
    {"train_micro_batch_size_per_gpu", "training.micro_batch_size"},
    {"gbs", "training.global_batch_size"},
    {"batch_size", "training.global_batch_size"},
    {"train_batch_size", "training.global_batch_size"},
    {"ga", "training.gradient_accumulation"},
    {"grad_acc", "training.gradient_accumulation"},
    {"gradient_accumulation_steps", "training.gradient_accumulation"},
    {"seq", "training.sequence_length"},
    {"seq_len", "training.sequence_length"},
    {"seq_length", "training.sequence_length"},
    {"seqlen", "training.sequence_length"},
    {"max_seq_length", "training.sequence_length"},
    {"dtype", "training.precision"},
    {"gradient_checkpointing", "training.activation_checkpointing"},
    {"recompute", "training.activation_checkpointing"},
    {"dp", "parallelism.data"},
    {"data_parallel_size", "parallelism.data"},
    {"tp", "parallelism.tensor"},
    {"tensor_parallel", "parallelism.tensor"},
    {"tensor_parallel_size", "parallelism.tensor"},
    {"tensor_parallel_degree", "parallelism.tensor"},
    {"tensor_model_parallel_size", "parallelism.tensor"},
    {"pp", "parallelism.pipeline"},
    {"pipeline_parallel", "parallelism.pipeline"},
    {"pipeline_parallel_size", "parallelism.pipeline"},
    {"pipeline_parallel_degree", "parallelism.pipeline"},
    {"pipeline_model_parallel_size", "parallelism.pipeline"},
    {"vpp", "parallelism.virtual_stages"},
    {"cp", "parallelism.context"},
    {"context_parallel_size", "parallelism.context"},
    {"context_parallel_degree", "parallelism.context"},
    {"ep", "parallelism.expert"},
    {"expert_model_parallel_size", "parallelism.expert"},
    {"zero", "data_parallel.zero_stage"},
    {"stage", "data_parallel.zero_stage"},
    {"num_nodes", "cluster.nodes"},
    {"nnodes", "cluster.nodes"},
};
// Keys of the sections that plan_sections.h does not read.
constexpr std::pair<std::string_view, std::string_view> kOtherSections[] = {
    {"cluster", "topology"},         {"cluster", "nodes"},
    {"cluster", "network"},          {"cluster", "collective_algorithm"},
    {"cluster", "routing"},          {"cluster", "routing_seed"},
    {"cluster", "slow_links"},       {"cluster", "slow_devices"},
    {"cluster", "other_nodes"},      {"communication", "nccl_algo"},
    {"communication", "nccl_proto"}, {"communication", "nccl_collnet"},
};
// Values under the names that they have elsewhere.
struct OtherValue {
  std::string_view key, word;  // dotted; as it is written elsewhere, in small letters
  std::string_view meant;      // "bf16", or other settings with it: "fsdp2, zero_stage: 3"
};
constexpr OtherValue kOtherValues[] = {
    {"training.precision", "bfloat16", "bf16"},
    {"training.precision", "float16", "fp16"},
    {"training.precision", "half", "fp16"},
    {"training.precision", "float32", "fp32"},
    {"training.precision", "bf16-mixed", "bf16"},
    {"training.precision", "float8", "fp8"},
    {"training.parameter_dtype", "bfloat16", "bf16"},
    {"training.parameter_dtype", "float32", "fp32"},
    {"training.reduce_dtype", "bfloat16", "bf16"},
    {"training.reduce_dtype", "float32", "fp32"},
    {"training.gradient_dtype", "bfloat16", "bf16"},
    {"training.gradient_dtype", "float32", "fp32"},
    {"training.attention", "fa2", "flash"},
    {"training.attention", "flash2", "flash"},
    {"training.attention", "flash_attention_2", "flash"},
    {"training.attention", "fa3", "flash3"},
    {"training.attention", "flash_attention_3", "flash3"},
    {"training.attention", "flex_attention", "flex"},
    {"training.attention", "eager", "math_fp32"},
    {"training.attention", "unfused", "math"},
    {"training.loss", "liger", "chunked"},
    {"training.loss", "chunked_nll", "chunked"},
    {"training.loss", "cce", "cut"},
    {"training.loss", "cut_cross_entropy", "cut"},
    {"training.loss", "hf", "huggingface"},
    {"training.loss", "te", "fused"},
    {"training.loss", "megatron", "in_place"},
    {"training.activation_checkpointing", "true", "full"},
    {"training.activation_checkpointing", "false", "none"},
    {"training.activation_checkpointing", "op", "selective_op"},
    {"training.optimizer", "adam", "adamw"},
    {"training.optimizer", "adamw_torch", "adamw"},
    {"training.optimizer", "adamw_torch_fused", "adamw, optimizer_implementation: fused"},
    {"data_parallel.framework", "fsdp", "fsdp2', or 'fsdp1"},
    {"data_parallel.framework", "fully_shard", "fsdp2"},
    {"data_parallel.framework", "torchtitan", "fsdp2"},
    {"data_parallel.framework", "megatron-lm", "megatron"},
    {"data_parallel.framework", "mcore", "megatron"},
    {"data_parallel.framework", "nemo", "megatron"},
    {"data_parallel.framework", "zero1", "deepspeed, zero_stage: 1"},
    {"data_parallel.framework", "zero2", "deepspeed, zero_stage: 2"},
    {"data_parallel.framework", "zero3", "deepspeed, zero_stage: 3"},
};
constexpr std::string_view kPlanSections[] = {
    "training", "parallelism", "experts", "data_parallel", "data_parallel.deepspeed", "software"};

// Those below `node`, down to the keys of sections in sections.
// What they may have been meant for is appended to `found`.
void Suggest(const Node& node, int deepest, std::size_t first, std::vector<std::string>& found,
             Diagnostics& diagnostics) {
  if (node.kind() != NodeKind::kMapping) return;
  for (const YamlNode::Entry& entry : node.tree()->entries) {
    const std::string path =
        node.path().empty() ? entry.key : fmt::format("{}.{}", node.path(), entry.key);
    const std::string said = fmt::format("unknown key: {}", Quoted(path));
    for (std::size_t i = first; i < diagnostics.size(); ++i) {
      Diagnostic& diagnostic = diagnostics[i];
      if (diagnostic.code == "input.unknown-word" && entry.value->kind == NodeKind::kScalar &&
          diagnostic.message.starts_with(Quoted(path) + " must be one of")) {
        if (const std::string meant = ValueMeant(path, entry.value->scalar); !meant.empty()) {
          diagnostic.hint = fmt::format("did you mean '{}'?", meant);
        }
        continue;
      }
      if (diagnostic.code != "input.unknown-key" || diagnostic.message != said) continue;
      const std::string meant = KeyMeant(path);
      if (meant.empty()) continue;
      diagnostic.hint = fmt::format("did you mean '{}'?", meant);
      found.push_back(meant);
    }
    if (deepest > 1) Suggest(Node(entry.value, path), deepest - 1, first, found, diagnostics);
  }
}

}  // namespace

std::string KeyMeant(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('.') + 1);
  const auto other = std::find_if(std::begin(kOtherWords), std::end(kOtherWords),
                                  [last](const auto& word) { return word.first == last; });
  if (other != std::end(kOtherWords)) return std::string(other->second);
  for (const std::string_view section : kPlanSections) {
    if (ReaderOf(section, last)) return fmt::format("{}.{}", section, last);
  }
  for (const auto& [section, key] : kOtherSections) {
    if (key == last) return fmt::format("{}.{}", section, key);
  }
  return "";
}

std::string ValueMeant(std::string_view path, std::string_view value) {
  std::string word(value);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto other = std::find_if(
      std::begin(kOtherValues), std::end(kOtherValues),
      [&](const OtherValue& known) { return known.key == path && known.word == word; });
  return other == std::end(kOtherValues) ? "" : std::string(other->meant);
}

void SuggestKeysMeant(const Node& root, std::size_t first, Diagnostics& diagnostics) {
  constexpr int kDeepest = 3;  // data_parallel.deepspeed.reduce_bucket_size
  if (first == diagnostics.size()) return;
  std::vector<std::string> found;
  Suggest(root, kDeepest, first, found, diagnostics);
  // A key under another name is not missing, too.
  const auto begin = diagnostics.begin() + static_cast<std::ptrdiff_t>(first);
  const auto told = [&found](const Diagnostic& diagnostic) {
    return diagnostic.code == "input.missing-key" &&
           std::any_of(found.begin(), found.end(), [&](const std::string& key) {
             return diagnostic.message.find(Quoted(key)) != std::string::npos;
           });
  };
  diagnostics.erase(std::remove_if(begin, diagnostics.end(), told), diagnostics.end());
}

}  // namespace stepcast::scenario
