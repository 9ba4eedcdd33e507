#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/text_lines.h"
#include "src/foreign/readers.h"
#include "src/foreign/recipes.h"
#include "src/foreign/shared_options.h"
#include "src/foreign/shell.h"

namespace stepcast::foreign {
namespace {

// The vocabulary size of the tokenizer that the arguments name.
std::optional<std::string> VocabularyOf(const Reading& reading) {
  // Pai-Megatron-Patch: the size of Qwen's tokenizer plus the option's value.
  constexpr std::int64_t kQwenWords = 151'643;
  const auto extra = reading.Integer("extra-vocab-size");
  if (extra && reading.Text("patch-tokenizer-type").starts_with("Qwen")) {
    return fmt::format("{}", kQwenWords + *extra);
  }
  const std::string type = reading.Text("tokenizer-type");
  if (type == "Llama2Tokenizer") return "32000";
  // Without a type, the files belong to GPT-2's tokenizer.
  if (type == "GPT2BPETokenizer" || (type.empty() && reading.Stated("merge-file") != nullptr)) {
    return "50257";
  }
  const std::string model = reading.Text("tokenizer-model");
  for (const auto& [part, size] : SplitPairs(TextAt(Table<MegatronTable>(), "vocabularies"))) {
    if (model.find(part) != std::string::npos) return std::string(size);
  }
  return std::nullopt;
}

void ReadVocabulary(Reading& reading) {
  const std::string_view key = "model.vocab_size";
  for (const char* option : {"vocab-size", "padded-vocab-size", "pad-vocab-size-to"}) {
    if (const auto size = reading.Integer(option)) {
      reading.Set(key, *size, option);
      return;
    }
  }
  if (const auto size = VocabularyOf(reading)) {
    for (const char* option :
         {"extra-vocab-size", "tokenizer-model", "tokenizer-type", "merge-file"}) {
      if (reading.Stated(option) == nullptr) continue;
      reading.Set(key, *size, option, "its tokenizer");
      const Entry* const words = reading.draft().Find(key);
      if (words != nullptr && words->value == *size &&
          option != std::string_view("extra-vocab-size")) {
        reading.draft().Note(fmt::format(
            "{}: a vocabulary of {} entries is assumed for the tokenizer {}; to change "
            "the size, add --set model.vocab_size=N",
            Origin(reading.Stated(option)->location), *size, Quoted(reading.Text(option))));
      }
      break;
    }
    return;
  }
  if (reading.draft().Has(key)) return;
  reading.Wrong("tokenizer-type",
                "the size of the vocabulary ('model.vocab_size') is missing in the file, because "
                "the tokenizer sets the size",
                "add --set model.vocab_size=128256, or --model config.json");
}

void ReadFamily(Reading& reading) {
  const bool rotary = reading.IsOn("use-rotary-position-embeddings") ||
                      reading.Text("position-embedding-type") == "rope";
  const bool rms = reading.Text("normalization") == "RMSNorm";
  const bool squared = reading.IsOn("squared-relu");
  const bool latent = reading.IsOn("multi-latent-attention");
  const bool gated = reading.IsOn("swiglu");
  const std::string_view position = reading.IsOn("use-rotary-position-embeddings")
                                        ? "use-rotary-position-embeddings"
                                        : "position-embedding-type";
  reading.Set("model.kind", "transformer", "num-layers");
  const std::filesystem::path file(reading.document().file);
  reading.draft().Assume("model.name", file.stem().string(), "the file's name");
  const bool head_norms = reading.IsOn("qk-layernorm") && !latent;
  const bool llama = rotary && rms && gated;
  const std::string_view family = latent                ? "latent"
                                  : squared             ? "squared"
                                  : llama || head_norms ? "gated"
                                                        : "other";
  reading.Set("model.family",
              std::string(TextAt(*scenario::Child(Table<MegatronTable>(), "families"), family)),
              latent ? std::string_view("multi-latent-attention") : position);
  reading.Set("model.position", rotary ? "rotary" : "learned", position);
  reading.Set("model.normalization", rms ? "rmsnorm" : "layernorm", "normalization");
  reading.Set("model.activation",
              squared ? "squared_relu"
              : gated ? "swiglu"
                      : "gelu",
              squared ? "squared-relu" : "swiglu");
  const std::string kind = reading.Text("position-embedding-type");
  if (kind == "alibi" || kind == "relative" || kind == "none") {
    reading.Omit("position-embedding-type", "positions are learned");
  }
  if (rms && !llama && !latent) reading.Set("model.norm_bias", "false", "normalization");
  const bool biases = !reading.IsOn("disable-bias-linear");
  const bool of_queries = biases || reading.IsOn("add-qkv-bias");
  reading.Set("model.attention_bias", of_queries, "disable-bias-linear");
  reading.Set("model.projection_bias", biases, "disable-bias-linear");
  reading.Set("model.mlp_bias", biases, "disable-bias-linear");
  reading.Set("model.tie_word_embeddings", !reading.IsOn("untie-embeddings-and-output-weights"),
              "untie-embeddings-and-output-weights");
  for (const auto& [option, key] : {std::pair("hidden-dropout", "model.dropout"),
                                    std::pair("attention-dropout", "model.attention_dropout")}) {
    const auto rate = reading.Get(option);
    reading.Set(key, !rate || rate->Number().value_or(0) > 0, option);
  }
  // With latent attention these are norms of its vectors, which it always has.
  if (head_norms) {
    reading.Set("model.use_qk_norm", "true", "qk-layernorm");
  }
}

void ReadLatentAttention(Reading& reading) {
  reading.SetInteger("model.kv_lora_rank", "kv-lora-rank");
  reading.SetInteger("model.q_lora_rank", "q-lora-rank");
  reading.SetInteger("model.qk_nope_head_dim", "qk-head-dim");
  reading.SetInteger("model.qk_rope_head_dim", "qk-pos-emb-head-dim");
  reading.SetInteger("model.v_head_dim", "v-head-dim");
}

// The default feed-forward width: four times the hidden size; for gated layers two thirds of that,
// in steps of 64.
std::int64_t FeedForward(std::int64_t hidden, bool gated) {
  constexpr std::int64_t kStep = 64;
  return gated ? 4 * hidden * 2 / 3 / kStep * kStep : 4 * hidden;
}

// Reads the model's dimensions, if no option and no config.json names a model.
void ReadModel(Reading& reading) {
  if (reading.Stated("num-layers") == nullptr || reading.draft().Find("model") != nullptr) return;
  reading.SetInteger("model.num_hidden_layers", "num-layers");
  const auto hidden = reading.Integer("hidden-size");
  reading.SetInteger("model.hidden_size", "hidden-size");
  reading.SetInteger("model.num_attention_heads", "num-attention-heads");
  const bool stated = reading.Stated("ffn-hidden-size") != nullptr;
  auto width = reading.Integer("ffn-hidden-size");
  if (!stated && hidden) width = FeedForward(*hidden, reading.IsOn("swiglu"));
  if (width) {
    reading.Set("model.intermediate_size", *width, stated ? "ffn-hidden-size" : "hidden-size");
  }
  const bool latent = reading.IsOn("multi-latent-attention");
  if (reading.IsOn("group-query-attention") && !latent) {
    reading.SetInteger("model.num_key_value_heads", "num-query-groups");
  }
  if (!latent) reading.SetInteger("model.head_dim", "kv-channels");
  reading.SetInteger("model.max_position_embeddings", "max-position-embeddings");
  if (const Setting* window = reading.Stated("window-size")) {
    const std::vector<std::string> sizes = window->value.Words();
    std::string digits = sizes.empty() ? "" : sizes.front();
    std::erase_if(digits, [](char c) { return c < '0' || c > '9'; });
    reading.Set("model.sliding_window", digits, "window-size");
    reading.SetInteger("model.sliding_window_pattern", "window-attn-skip-freq");
  }
  ReadFamily(reading);
  if (latent) ReadLatentAttention(reading);
  if (reading.Integer("num-experts").value_or(0) > 1) ReadExpertsOfModel(reading);
  if (reading.Integer("mtp-num-layers").value_or(0) > 0) {
    reading.SetInteger("model.num_nextn_predict_layers", "mtp-num-layers");
    reading.SetIfOn("model.mtp_use_repeated_layer", "true", "mtp-use-repeated-layer");
  }
  const Entry* position = reading.draft().Find("model.position");
  const bool rotary = position != nullptr && position->value == "rotary";
  if (rotary) reading.SetNumber("model.rope_theta", "rotary-base");
  reading.SetNumber("model.norm_epsilon", "norm-epsilon");
  if (reading.IsOn("use-rope-scaling")) {
    const auto factor = reading.Get("rope-scaling-factor");
    reading.Set("model.rope_scaling",
                ScenarioValue::Yaml(fmt::format("{{rope_type: llama3, factor: {}}}",
                                                factor ? YamlScalar(ScenarioWords(*factor)) : "8")),
                "use-rope-scaling");
  }
  ReadVocabulary(reading);
}

void ReadPrecision(Reading& reading) {
  const std::string_view key = "training.precision";
  const bool quantised = !reading.Text("fp8-format").empty() || reading.IsOn("fp8-hybrid");
  const std::string recipe = reading.Text("fp8-recipe");
  if (quantised && reading.IsOn("fp8-param-gather")) {
    reading.Omit("fp8-param-gather",
                 "FSDP gathers parameters in 16 bits, so the forecast time of the gathers is up to "
                 "twice the real time");
  }
  if (!reading.Text("fp4-format").empty()) {
    reading.Set(key, "nvfp4", "fp4-format");
  } else if (quantised && recipe == "mxfp8") {
    reading.Set(key, "mxfp8", "fp8-recipe");
  } else if (quantised) {
    reading.Set(key, "fp8", reading.Stated("fp8-format") != nullptr ? "fp8-format" : "fp8-hybrid");
    reading.Set("training.fp8_scaling", recipe == "delayed" ? "delayed" : "current", "fp8-recipe");
    if (recipe != "delayed" && recipe != "tensorwise") {
      reading.Omit("fp8-recipe",
                   "each tensor has one scale, computed from the values of the tensor");
    }
  } else if (reading.IsOn("bf16")) {
    reading.Set(key, "bf16", "bf16");
  } else if (reading.IsOn("fp16")) {
    reading.Set(key, "fp16", "fp16");
  } else {
    reading.Set(key, "fp32", "bf16");
    return;
  }
  if (reading.has_file_of("DeepSpeed") || reading.IsOn("deepspeed")) return;
  const bool half = reading.IsOn("fp16");
  const bool in_bf16 =
      reading.IsOn("grad-reduce-in-bf16") || (reading.Text("main-grads-dtype") == "bf16" &&
                                              !reading.IsOn("accumulate-allreduce-grads-in-fp32"));
  const std::string_view gradients = "training.gradient_dtype";
  if (reading.IsOn("accumulate-allreduce-grads-in-fp32")) {
    reading.Set(gradients, "fp32", "accumulate-allreduce-grads-in-fp32");
  } else if (in_bf16 && !half) {
    reading.Set(gradients, "bf16",
                reading.IsOn("grad-reduce-in-bf16") ? "grad-reduce-in-bf16" : "main-grads-dtype");
  } else if (!half) {
    reading.Set(gradients, "fp32", "main-grads-dtype");
  }
}

void ReadAttention(Reading& reading) {
  const std::string_view key = "training.attention";
  const std::string_view option = "attention-backend";
  const std::string backend = reading.Text(option);
  if (backend == "flash" || backend == "fused") {
    reading.Set(key, backend == "flash" ? "flash" : "cudnn", option);
  } else if (backend == "unfused" || backend == "local") {
    const bool fused = !reading.IsOn("no-masked-softmax-fusion");
    const bool wide = reading.IsOn("attention-softmax-in-fp32");
    reading.Set(key, fused ? "fused_softmax" : wide ? "math_fp32" : "math", option);
  } else if (reading.IsOn("use-flash-attn")) {
    // megatron/core ignores it (NVIDIA/Megatron-LM @ d98e8a64ddf3; megatron/legacy did not):
    // Transformer Engine chooses its kernel.
    reading.Omit(
        "use-flash-attn",
        "the option --attention-backend selects the attention kernel of Transformer Engine");
  }
}

void ReadModules(Reading& reading) {
  const Setting* modules = reading.Stated("recompute-modules");
  if (modules == nullptr || !modules->value.unknown.empty()) return;
  std::string known;
  bool others = false;
  for (const std::string& name : modules->value.Words()) {
    constexpr std::string_view kModelled[] = {"core_attn", "mlp",     "layernorm",
                                              "moe",       "moe_act", "mla_up_proj"};
    const bool modelled =
        std::find(std::begin(kModelled), std::end(kModelled), name) != std::end(kModelled);
    others = others || !modelled;
    if (modelled) known += (known.empty() ? "" : " ") + name;
  }
  if (others) reading.Omit("recompute-modules", "activations of unsupported modules are stored");
  if (known.empty()) {
    reading.Set("training.activation_checkpointing", "none", "recompute-modules");
    return;
  }
  reading.Set("training.activation_checkpointing", "selective", "recompute-granularity");
  if (known != "core_attn") reading.Set("training.recompute_modules", known, "recompute-modules");
}

void ReadRecomputation(Reading& reading) {
  const std::string_view key = "training.activation_checkpointing";
  std::string granularity = reading.Text("recompute-granularity");
  std::string_view option = "recompute-granularity";
  if (reading.IsOn("checkpoint-activations")) {
    reading.Set(key, "full", "checkpoint-activations");
    return;
  }
  if (reading.IsOn("recompute-activations")) {
    granularity = "selective";
    option = "recompute-activations";
  }
  const std::int64_t count = reading.Integer("recompute-num-layers").value_or(1);
  const bool first_blocks = reading.Text("recompute-method") == "block";
  if (granularity == "full" && first_blocks && count == 0) {
    reading.Set(key, "none", "recompute-num-layers");
  } else if (granularity == "full") {
    reading.Set(key, "full", option);
    if (first_blocks) {
      reading.Set("training.checkpointed_blocks", fmt::format("first {}", count),
                  "recompute-num-layers");
    } else if (count > 1) {
      reading.Set("training.blocks_per_checkpoint", count, "recompute-num-layers");
    }
  } else if (granularity == "selective") {
    if (reading.Stated("recompute-modules") != nullptr) return ReadModules(reading);
    reading.Set(key, "selective", option);
  } else {
    reading.Set(key, "none", option);
  }
}

void ReadOffloading(Reading& reading) {
  const std::string_view option = "cpu-offloading-num-layers";
  const auto offloaded = reading.Integer(option);
  const auto layers = reading.Integer("num-layers");
  if (!offloaded || *offloaded == 0) return;
  if (layers && *offloaded + 1 < *layers) {
    reading.Omit(option, "activations of all blocks are offloaded");
  }
  reading.Set("training.activation_offload", "true", option);
}

void ReadContext(Reading& reading) {
  if (reading.draft().Integer("parallelism.context").value_or(1) == 1) return;
  constexpr std::string_view kMethods =
      "p2p=ring all_gather=all_gather allgather=all_gather a2a=all_to_all a2a+p2p=hierarchical";
  const std::string_view option = "cp-comm-type";
  const std::vector<std::string> names = reading.Get(option)->Words();
  const auto method = WordFor(kMethods, names.empty() ? "" : names.front());
  reading.Set("parallelism.context_method", std::string(method.value_or("ring")), option);
  if (method == "hierarchical") {
    const Setting* stated = reading.Stated("hierarchical-context-parallel-sizes");
    if (stated != nullptr && !stated->value.Words().empty()) {
      reading.Set("parallelism.context_inner", stated->value.Words().front(), stated->name);
    }
  }
}

void ReadTensor(Reading& reading) {
  reading.SetIfOn("training.async_tensor_model_parallel_allreduce", "false",
                  "no-async-tensor-model-parallel-allreduce");
  if (reading.draft().Integer("parallelism.tensor").value_or(1) == 1) return;
  reading.SetInteger("software.cuda_device_max_connections", "env.CUDA_DEVICE_MAX_CONNECTIONS");
  const bool divides = reading.IsOn("sequence-parallel");
  reading.Set("parallelism.sequence_parallel", divides, "sequence-parallel");
  if (reading.IsOn("tp-comm-overlap") && divides) {
    reading.Set("training.tensor_overlap", "user_buffers", "tp-comm-overlap");
  }
}

// Reads different sizes of the first and last stages; the others are equal.
void ReadUnevenStages(Reading& reading, std::int64_t stages) {
  const auto first = reading.Integer("decoder-first-pipeline-num-layers");
  const auto last = reading.Integer("decoder-last-pipeline-num-layers");
  const auto layers = reading.Integer("num-layers");
  if (!first && !last) return;
  const char* option =
      first ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers";
  const std::int64_t ends = (first ? 1 : 0) + (last ? 1 : 0);
  const auto counted = [](const std::optional<std::int64_t>& blocks) {
    return std::clamp<std::int64_t>(blocks.value_or(0), -1'000'000, 1'000'000);
  };
  const std::int64_t between = counted(layers) - counted(first) - counted(last);
  if (!layers || stages <= ends || between % (stages - ends) != 0 ||
      reading.draft().Integer("parallelism.virtual_stages").value_or(1) > 1) {
    reading.Omit(option,
                 "all stages have the same number of blocks; to set the number for each stage, use "
                 "parallelism.stage_layers");
    return;
  }
  std::vector<std::int64_t> parts(static_cast<std::size_t>(stages), between / (stages - ends));
  if (first) parts.front() = *first;
  if (last) parts.back() = *last;
  reading.Set("parallelism.stage_layers",
              ScenarioValue::Yaml(fmt::format("[{}]", fmt::join(parts, ", "))), option);
}

void ReadPipeline(Reading& reading) {
  reading.SetIfOn("data_parallel.align_grad_reduce", "false", "no-align-grad-reduce");
  const std::int64_t stages = reading.draft().Degree("parallelism.pipeline");
  if (stages == 1) return;
  const std::string_view key = "parallelism.virtual_stages";
  const auto chunks = reading.Integer("num-virtual-stages-per-pipeline-rank");
  const auto of_chunk = reading.Integer("num-layers-per-virtual-pipeline-stage");
  const auto layers = reading.Integer("num-layers");
  if (chunks && *chunks > 1) {
    reading.Set(key, *chunks, "num-virtual-stages-per-pipeline-rank");
  } else if (of_chunk && *of_chunk > 0 && layers) {
    const std::int64_t virtual_stages = *layers / *of_chunk / stages;
    if (virtual_stages > 1) {
      reading.Set(key, virtual_stages, "num-layers-per-virtual-pipeline-stage");
    }
  }
  if (const Setting* layout = reading.Stated("pipeline-model-parallel-layout")) {
    std::string text = layout->value.text;
    std::erase(text, ',');
    reading.Set("parallelism.stage_layers", text, layout->name);
    const auto borders = std::count(text.begin(), text.end(), '|') + 1;
    if (text.find('(') == std::string::npos && borders > stages) {
      reading.Set(key, borders / stages, layout->name);
    }
  }
  ReadUnevenStages(reading, stages);
  if (reading.draft().Integer(key).value_or(1) > 1) {
    reading.SetInteger("parallelism.microbatch_group_size_per_vp_stage",
                       "microbatch-group-size-per-virtual-pipeline-stage");
    reading.SetIfOn("data_parallel.overlap_p2p_comm", "false", "no-overlap-p2p-communication");
    reading.SetIfOn("data_parallel.align_param_gather", "false", "no-align-param-gather");
  }
}

void ReadExperts(Reading& reading) {
  // From the arguments, or from the model that they or the command line name.
  const bool experts = reading.Integer("num-experts").value_or(reading.experts().value_or(0)) > 1;
  if (experts) ReadHowExpertsRun(reading);
  for (const char* option : {"expert-model-parallel-size", "moe-expert-parallel-size"}) {
    if (const auto degree = reading.Integer(option); degree && *degree > 1) {
      reading.Set("parallelism.expert", *degree, option);
    }
  }
  // By default, experts are divided like all other layers.
  if (const auto degree = reading.Integer("expert-tensor-parallel-size")) {
    const bool differs = *degree != reading.draft().Integer("parallelism.tensor").value_or(1);
    if (differs && experts) {
      reading.Set("parallelism.expert_tensor", *degree, "expert-tensor-parallel-size");
    }
  }
}

// Reads the optimizer in one kernel with remainders, and its states in host memory.
void ReadPrecisionAware(Reading& reading) {
  const bool aware = reading.IsOn("use-precision-aware-optimizer");
  if (!aware) return;
  if (!reading.IsOn("optimizer-cpu-offload")) {
    reading.Set("data_parallel.copy_main_gradients", "false", "use-precision-aware-optimizer");
  } else {
    reading.Set("data_parallel.optimizer_cpu_offload", "true", "optimizer-cpu-offload");
    const auto fraction = reading.Get("optimizer-offload-fraction");
    if (fraction && fraction->Number().value_or(1) < 1) {
      reading.Omit("optimizer-offload-fraction", "all optimizer states are stored in host memory");
    }
    reading.SetIfOn("data_parallel.overlap_cpu_optimizer_d2h_h2d", "true",
                    "overlap-cpu-optimizer-d2h-h2d");
    return;
  }
  if (reading.IsOn("bf16")) {
    reading.Set("training.master_weights", "fp16_remainder", "use-precision-aware-optimizer");
  }
  const std::string moments = reading.Text("exp-avg-dtype");
  if (moments == "fp32" || moments == "bf16" || moments == "fp16") {
    reading.Set("training.optimizer_state_dtype", moments, "exp-avg-dtype");
  } else {
    reading.Omit("exp-avg-dtype", "the moments of the optimizer are stored in FP32");
  }
}

// Whether DeepSpeed's engine trains Megatron's model.
bool IsByDeepSpeed(const Reading& reading) {
  return reading.has_file_of("DeepSpeed") || reading.IsOn("deepspeed");
}

void ReadByDeepSpeed(Reading& reading) {
  if (reading.has_file_of("DeepSpeed")) return;
  const Setting* file = reading.Stated("deepspeed-config");
  if (file != nullptr) {
    reading.Wrong("deepspeed-config",
                  fmt::format("the DeepSpeed configuration {} is missing on the command line",
                              Quoted(file->value.Shown())),
                  fmt::format("add the file: stepcast init {} {}", reading.document().file,
                              file->value.Shown()));
    return;
  }
  reading.Set("data_parallel.framework", "deepspeed", "deepspeed");
  const auto stage = reading.Integer("zero-stage");
  if (stage) reading.Set("data_parallel.zero_stage", *stage, "zero-stage");
}

void ReadSharding(Reading& reading) {
  if (IsByDeepSpeed(reading)) return ReadByDeepSpeed(reading);
  reading.Set("data_parallel.overlap", reading.IsOn("overlap-grad-reduce"), "overlap-grad-reduce");
  const bool shards = reading.IsOn("use-distributed-optimizer");
  reading.Set("data_parallel.framework", "megatron", "use-distributed-optimizer");
  reading.Set("data_parallel.zero_stage", shards ? "1" : "0", "use-distributed-optimizer");
  reading.SetIfOn("data_parallel.gradient_accumulation_fusion", "false",
                  "no-gradient-accumulation-fusion");
  const auto bucket = reading.Integer("ddp-bucket-size");
  if (bucket && reading.IsOn("overlap-grad-reduce")) {
    const auto is_fp32 = [&reading](const char* key) {
      const Entry* type = reading.draft().Find(key);
      return type != nullptr && type->value == "fp32";
    };
    const bool wide = is_fp32("training.gradient_dtype") || is_fp32("training.precision");
    const std::int64_t bytes = wide ? 4 : 2;
    reading.Set("data_parallel.bucket_size", fmt::format("{} B", *bucket * bytes),
                "ddp-bucket-size", fmt::format("{} gradients", *bucket));
  }
  if (!shards) return;
  reading.Set("data_parallel.overlap_param_gather", reading.IsOn("overlap-param-gather"),
              "overlap-param-gather");
  reading.SetIfOn("data_parallel.overlap_param_gather_with_optimizer_step", "true",
                  "overlap-param-gather-with-optimizer-step");
  ReadPrecisionAware(reading);
  const std::string_view instances = "num-distributed-optimizer-instances";
  const std::int64_t copies = reading.Integer(instances).value_or(1);
  if (copies == 1) return;
  ReadCopies(reading, instances, copies);
}

// Reads the model of a recipe, or reports an unknown recipe.
void ReadRecipe(Reading& reading) {
  if (const Setting* unknown = reading.Stated("recipe")) {
    std::vector<std::string_view> names;
    for (const Recipe& recipe : Recipes()) names.push_back(recipe.name);
    reading.Wrong(
        "recipe",
        fmt::format("stepcast does not know the settings of the recipe '{}'", unknown->value.text),
        fmt::format("known recipes of {}: {}", kRecipeRelease, fmt::join(names, ", ")));
  }
  const std::string model = reading.Text("recipe.model");
  if (model.empty() || reading.draft().Has("model")) return;
  if (model.find('/') == std::string::npos) {
    reading.Set("model", model, "recipe.model", "the recipe's");
  } else {
    ReadHubModel(reading, "recipe.model");
  }
  // A file gives the model's dimensions.
  for (const char* option : {"num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads",
                             "num-query-groups", "kv-channels", "vocab-size", "num-experts"}) {
    reading.Omit(option,
                 "the forecast uses the model of the recipe; to use another model, add --model");
  }
}

void Rules(Reading& reading) {
  ReadRecipe(reading);
  ReadModel(reading);
  reading.SetInteger("training.global_batch_size", "global-batch-size");
  if (reading.Stated("global-batch-size") == nullptr) {
    reading.Set("training.gradient_accumulation", "1", "global-batch-size");
  }
  ReadPrecision(reading);
  ReadClipping(reading, "clip-grad");
  ReadAttention(reading);
  const auto divisor = reading.Integer("make-vocab-size-divisible-by");
  if (divisor && !IsByDeepSpeed(reading)) {
    reading.Set("training.make_vocab_size_divisible_by", *divisor, "make-vocab-size-divisible-by");
  }
  reading.SetIfOn("training.deterministic", "true", "deterministic-mode");
  ReadRecomputation(reading);
  ReadOffloading(reading);
  ReadTensor(reading);
  ReadContext(reading);
  ReadPipeline(reading);
  ReadExperts(reading);
  ReadSharding(reading);
  ReadLauncher(reading);
}

}  // namespace

const Framework kMegatron = {
    .name = "Megatron-LM",
    .form = "Megatron-LM's arguments (shell or YAML; also YAML of NeMo and Megatron-Bridge)",
    .release = "000c4ac2",
    .options = Options<MegatronTable>,
    .rules = Rules};

namespace {

// The Hub's name for a file of Primus: "Llama-3.1-8B" for "llama3.1_8B.yaml".
std::string HubNameOf(std::string name) {
  if (const std::size_t dot = name.rfind(".yaml"); dot != std::string::npos) name.resize(dot);
  constexpr std::string_view kLlama = "llama";
  if (name.starts_with(kLlama) && name.size() > kLlama.size()) name.insert(kLlama.size(), "-");
  return name;
}

// Megatron-LM's arguments in a file of Primus: below `overrides` of the module that trains.
std::optional<Document> PrimusDocument(const Document& document) {
  static constexpr std::string_view kFramework = "framework";
  const auto framework =
      std::find_if(document.settings.begin(), document.settings.end(), [](const Setting& setting) {
        return setting.name.starts_with("modules.") && setting.name.ends_with(kFramework) &&
               setting.value.text == "megatron";
      });
  if (framework == document.settings.end()) return std::nullopt;
  const std::string module = framework->name.substr(0, framework->name.size() - kFramework.size());
  Document arguments{.file = document.file};
  const Setting* config = document.Find(module + "config");
  // The values of Primus' own files, which the overrides replace.
  AddSettings(TextAt(Table<MegatronTable>(), "primus"),
              (config == nullptr ? &*framework : config)->location, arguments);
  if (const Setting* model = document.Find(module + "model")) {
    arguments.settings.push_back({"recipe.model",
                                  Value::Text("Primus/" + HubNameOf(model->value.text)),
                                  model->location, model->name});
  }
  const std::string overrides = module + "overrides.";
  for (Setting setting : document.settings) {
    if (!setting.name.starts_with(overrides)) continue;
    setting.written = setting.name;
    setting.name.erase(0, overrides.size());
    arguments.settings.push_back(std::move(setting));
  }
  return arguments;
}

}  // namespace

std::optional<Document> MegatronDocument(const Document& original) {
  const std::optional<Document> primus = PrimusDocument(original);
  const Document& document = primus ? *primus : original;
  Document arguments{.file = document.file};
  for (Setting setting : document.settings) {
    const std::size_t hyphens = setting.name.find("--");
    const std::size_t dot = setting.name.find('.');
    if (hyphens != std::string::npos) {
      setting.name.erase(0, hyphens + 2);
    } else if (setting.name.starts_with("ENV_VARS.")) {
      setting.name = "env." + setting.name.substr(dot + 1);
    } else if (setting.name.starts_with("ARGS.") || setting.name.starts_with("MODEL_ARGS.")) {
      setting.name.erase(0, dot + 1);
    }
    arguments.settings.push_back(std::move(setting));
  }
  arguments = Spelled(std::move(arguments), '-');
  for (Setting& setting : arguments.settings) {
    const auto negated = WordFor(TextAt(Table<MegatronTable>(), "negated"), setting.name);
    const auto option =
        negated ? negated : WordFor(TextAt(Table<MegatronTable>(), "renamed"), setting.name);
    if (!option) continue;
    if (setting.written.empty()) setting.written = setting.name;
    setting.name = *option;
    const auto on = setting.value.Boolean();
    if (!negated || !on) continue;
    setting.written_value = setting.value.Shown();
    setting.value.text = *on ? "false" : "true";
  }
  const bool is_megatron = arguments.Has("tensor-model-parallel-size") ||
                           arguments.Has("micro-batch-size") || arguments.Has("num-layers");
  const bool trains = arguments.Has("seq-length") || arguments.Has("num-attention-heads") ||
                      arguments.Has("global-batch-size");
  if (!is_megatron || !trains) return std::nullopt;
  return arguments;
}

}  // namespace stepcast::foreign
