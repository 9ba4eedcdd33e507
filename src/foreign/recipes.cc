#include "src/foreign/recipes.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <system_error>
#include <utility>

#include "src/base/files.h"
#include "src/foreign/frameworks.h"
#include "src/foreign/settings_files.h"
#include "src/foreign/shared_options.h"
#include "src/scenario/source_names.h"

namespace stepcast::foreign {
Syntax SyntaxOf(const std::string& file, std::string_view text) {
  const auto ends = [&file](std::initializer_list<const char*> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&file](const char* ending) { return file.ends_with(ending); });
  };
  if (ends({".toml"})) return Syntax::kToml;
  if (ends({".py"})) return Syntax::kPython;
  if (ends({".sh", ".bash", ".sbatch", ".slurm"})) return Syntax::kShell;
  if (text.starts_with("#!") && text.substr(0, text.find('\n')).find("sh") != text.npos) {
    return Syntax::kShell;
  }
  // Command-line arguments without a command.
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text.substr(begin).starts_with("--") &&
      !text.substr(begin).starts_with("---")) {
    return Syntax::kShell;
  }
  return Syntax::kYaml;
}

bool IsRecipe(const std::string& name) {
  std::error_code error;
  return RecipeOf(name) != nullptr && !std::filesystem::exists(name, error) &&
         !scenario::FindSource(name, "", scenario::SourceKind::kModel).has_value();
}

bool IsModelName(const std::string& name) {
  std::error_code error;
  if (name.empty() || IsRecipe(name) || std::filesystem::is_regular_file(name, error)) return false;
  const auto found = scenario::FindSource(name, "", scenario::SourceKind::kModel);
  // A folder without a config.json is not a model, even if its name begins like one.
  if (found && std::filesystem::is_directory(*found, error)) return false;
  return ModelOfTheHub(name).has_value() || (found && !name.ends_with(".yaml"));
}

bool IsOfAnotherProgram(const std::string& file) {
  if (IsRecipe(file) || IsModelName(file)) return true;
  // A pipe can be read only once, by the scenario reader.
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  Diagnostics ignored;
  const auto text = ReadTextFile(file, ignored);
  if (!text || text->size() > kLargestConfiguration) return false;
  if (SyntaxOf(file, *text) != Syntax::kYaml) return true;
  const auto document = ParseYamlSettings(*text, file);
  return document && !IsScenario(*document) &&
         (Recognise(*document) || IsModel(*document) || !OtherProgramOf(*document).empty());
}

namespace {

// Settings that all recipes share: src/megatron/bridge/recipes/common.py (_pretrain_common), and
// equal lines in each of them.
constexpr std::string_view kCommon =
    "train.micro_batch_size=1 train.global_batch_size=512 mixed_precision=bf16_mixed "
    "model.cross_entropy_loss_fusion=true model.transformer_impl=transformer_engine "
    "optimizer.optimizer=adam optimizer.clip_grad=1.0 ddp.use_distributed_optimizer=true "
    "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.grad_reduce_in_fp32=true";

// From src/megatron/bridge/recipes/llama/llama3.py, qwen/qwen3.py, qwen/qwen3_moe.py,
// deepseek/deepseek_v3.py.
constexpr Recipe kRecipes[] = {
    {"llama32_1b", "llama3.2-1b", "model.seq_length=8192"},
    {"llama32_3b", "llama3.2-3b", "model.seq_length=8192"},
    {"llama3_8b", "llama3.1-8b", "model.seq_length=8192 model.context_parallel_size=2"},
    {"llama3_8b_16k", "llama3.1-8b",
     "model.seq_length=16384 model.tensor_model_parallel_size=4 "
     "model.pipeline_model_parallel_size=2 model.context_parallel_size=2 "
     "model.sequence_parallel=true"},
    {"llama3_8b_64k", "llama3.1-8b",
     "model.seq_length=65536 model.tensor_model_parallel_size=4 "
     "model.pipeline_model_parallel_size=2 model.context_parallel_size=4 "
     "model.sequence_parallel=true"},
    {"llama3_8b_128k", "llama3.1-8b",
     "model.seq_length=131072 model.tensor_model_parallel_size=4 "
     "model.pipeline_model_parallel_size=2 model.context_parallel_size=8 "
     "model.sequence_parallel=true"},
    {"llama3_70b", "llama3.1-70b",
     "model.seq_length=8192 model.tensor_model_parallel_size=4 "
     "model.pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=5 "
     "model.context_parallel_size=2 model.sequence_parallel=true "
     "comm_overlap.tp_comm_overlap=true"},
    {"llama3_70b_16k", "llama3.1-70b",
     "model.seq_length=16384 model.tensor_model_parallel_size=8 "
     "model.pipeline_model_parallel_size=2 model.context_parallel_size=2 "
     "model.sequence_parallel=true comm_overlap.tp_comm_overlap=true"},
    {"llama3_70b_64k", "llama3.1-70b",
     "model.seq_length=65536 model.tensor_model_parallel_size=8 "
     "model.pipeline_model_parallel_size=4 model.context_parallel_size=8 "
     "model.sequence_parallel=true comm_overlap.tp_comm_overlap=true"},
    {"llama31_8b", "llama3.1-8b", "model.seq_length=8192 model.context_parallel_size=2"},
    {"llama31_70b", "llama3.1-70b",
     "model.seq_length=131072 model.tensor_model_parallel_size=4 "
     "model.pipeline_model_parallel_size=4 model.virtual_pipeline_model_parallel_size=5 "
     "model.context_parallel_size=2 model.sequence_parallel=true "
     "comm_overlap.tp_comm_overlap=true"},
    {"llama31_405b", "llama3.1-405b",
     "model.seq_length=131072 model.tensor_model_parallel_size=8 "
     "model.pipeline_model_parallel_size=8 model.virtual_pipeline_model_parallel_size=2 "
     "model.context_parallel_size=4 model.sequence_parallel=true "
     "model.account_for_embedding_in_pipeline_split=true "
     "model.account_for_loss_in_pipeline_split=true comm_overlap.tp_comm_overlap=true"},
    {"qwen3_8b", "qwen3-8b", "model.seq_length=4096 model.tensor_model_parallel_size=4"},
    {"qwen3_30b_a3b", "qwen3-30b-a3b",
     "model.seq_length=4096 model.tensor_model_parallel_size=4 "
     "model.pipeline_model_parallel_size=2 model.expert_model_parallel_size=4 "
     "model.sequence_parallel=true model.moe_token_dispatcher_type=alltoall "
     "model.moe_grouped_gemm=true model.moe_permute_fusion=true"},
    {"qwen3_235b_a22b", "qwen3-235b-a22b",
     "model.seq_length=4096 model.tensor_model_parallel_size=4 "
     "model.pipeline_model_parallel_size=16 model.context_parallel_size=2 "
     "model.expert_model_parallel_size=8 model.sequence_parallel=true "
     "model.account_for_embedding_in_pipeline_split=true "
     "model.account_for_loss_in_pipeline_split=true model.moe_token_dispatcher_type=alltoall "
     "model.moe_grouped_gemm=true model.moe_permute_fusion=true"},
    {"deepseek_v3", "deepseek-v3",
     "model.seq_length=4096 train.global_batch_size=4096 model.tensor_model_parallel_size=2 "
     "model.pipeline_model_parallel_size=16 model.expert_model_parallel_size=64 "
     "model.expert_tensor_parallel_size=1 model.sequence_parallel=true model.mtp_num_layers=1 "
     "model.pipeline_model_parallel_layout=Etttt|(tttt|)*14tmL "
     "model.moe_token_dispatcher_type=alltoall model.moe_grouped_gemm=true "
     "model.moe_permute_fusion=true model.moe_shared_expert_overlap=true "
     "model.recompute_granularity=selective ddp.grad_reduce_in_fp32=false "
     "mixed_precision.grad_reduce_in_fp32=false optimizer.use_precision_aware_optimizer=true "
     "optimizer.main_grads_dtype=bf16 optimizer.exp_avg_dtype=bf16 "
     "optimizer.exp_avg_sq_dtype=bf16"},
};

// The start of a user's own recipe in a file for Megatron-Bridge.
constexpr Recipe kBeginning = {"_pretrain_common", "", ""};

// The name without parts for a kind of training, a number of GPUs, a GPU type or a data type.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    plain +=
        c == '-' || c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const std::size_t cut = plain.find("_pretrain");
  return plain.substr(0, cut);
}

void AddSettings(std::string_view settings, const Location& location, Document& document) {
  while (!settings.empty()) {
    const std::string_view word = settings.substr(0, settings.find(' '));
    settings.remove_prefix(std::min(word.size() + 1, settings.size()));
    const std::size_t sign = word.find('=');
    document.settings.push_back({std::string(word.substr(0, sign)),
                                 Value::Text(std::string(word.substr(sign + 1))), location});
  }
}

}  // namespace

std::span<const Recipe> Recipes() { return kRecipes; }

const Recipe* RecipeOf(std::string_view name) {
  if (name == kBeginning.name) return &kBeginning;
  const std::string plain = Plain(name);
  const auto* found = std::find_if(std::begin(kRecipes), std::end(kRecipes),
                                   [&](const Recipe& recipe) { return recipe.name == plain; });
  return found == std::end(kRecipes) ? nullptr : found;
}

Document WithRecipe(const Recipe& recipe, const Location& location, Document document) {
  Document whole{.file = document.file};
  AddSettings(kCommon, location, whole);
  AddSettings(recipe.settings, location, whole);
  if (!recipe.model.empty()) {
    whole.settings.push_back({"recipe.model", Value::Text(std::string(recipe.model)), location});
  }
  std::move(document.settings.begin(), document.settings.end(), std::back_inserter(whole.settings));
  return whole;
}

}  // namespace stepcast::foreign
