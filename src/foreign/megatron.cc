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

// The default feed-forward width: four times the hidden size; for gated layers two thirds of that,
// in steps of 64.
std::int64_t FeedForward(std::int64_t hidden, bool gated) {
  constexpr std::int64_t kStep = 64;
  return gated ? 4 * hidden * 2 / 3 / kStep * kStep : 4 * hidden;
}

// Reads the model's dimensions, if no option and no config.json names a model.
void ReadModel(Reading& reading) {
  if (reading.Stated("num-layers") == nullptr || reading.draft().Find("model") != nullptr) return;
  reading.Apply("dimensions");
  const auto hidden = reading.Integer("hidden-size");
  const bool stated = reading.Stated("ffn-hidden-size") != nullptr;
  auto width = reading.Integer("ffn-hidden-size");
  if (!stated && hidden) width = FeedForward(*hidden, reading.IsOn("swiglu"));
  if (width) {
    reading.Set("model.intermediate_size", *width, stated ? "ffn-hidden-size" : "hidden-size");
  }
  reading.Apply("attention_dimensions");
  if (const Setting* window = reading.Stated("window-size")) {
    const std::vector<std::string> sizes = window->value.Words();
    std::string digits = sizes.empty() ? "" : sizes.front();
    std::erase_if(digits, [](char c) { return c < '0' || c > '9'; });
    reading.Set("model.sliding_window", digits, "window-size");
    reading.SetInteger("model.sliding_window_pattern", "window-attn-skip-freq");
  }
  const std::filesystem::path file(reading.document().file);
  reading.draft().Assume("model.name", file.stem().string(), "the file's name");
  reading.Apply("model");
  if (reading.Integer("num-experts").value_or(0) > 1) ReadExpertsOfModel(reading);
  reading.Apply("rest_of_model");
  if (reading.IsOn("use-rope-scaling")) {
    const auto factor = reading.Get("rope-scaling-factor");
    reading.Set("model.rope_scaling",
                ScenarioValue::Yaml(fmt::format("{{rope_type: llama3, factor: {}}}",
                                                factor ? YamlScalar(ScenarioWords(*factor)) : "8")),
                "use-rope-scaling");
  }
  ReadVocabulary(reading);
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
    reading.Apply("virtual_stages");
  }
}

void ReadExperts(Reading& reading) {
  // From the arguments, or from the model that they or the command line name.
  const bool experts = reading.Integer("num-experts").value_or(reading.experts().value_or(0)) > 1;
  if (experts) reading.Apply("experts");
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

// Whether DeepSpeed's engine trains Megatron's model.
bool IsByDeepSpeed(const Reading& reading) {
  return reading.has_file_of("DeepSpeed") || reading.IsOn("deepspeed");
}

void ReadByDeepSpeed(Reading& reading) {
  if (reading.has_file_of("DeepSpeed")) return;
  const Setting* file = reading.Stated("deepspeed-config");
  if (file != nullptr) return AskForFile(reading, "deepspeed-config", "DeepSpeed");
  reading.Set("data_parallel.framework", "deepspeed", "deepspeed");
  const auto stage = reading.Integer("zero-stage");
  if (stage) reading.Set("data_parallel.zero_stage", *stage, "zero-stage");
}

void ReadSharding(Reading& reading) {
  if (IsByDeepSpeed(reading)) return ReadByDeepSpeed(reading);
  reading.Apply("sharding");
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
  if (!reading.IsOn("use-distributed-optimizer")) return;
  reading.Apply("distributed_optimizer");
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
  reading.Apply("batch");
  reading.Apply("precision");
  if (!IsByDeepSpeed(reading)) reading.Apply("gradient_type");
  ReadClipping(reading, "clip-grad");
  reading.Apply("attention");
  const auto divisor = reading.Integer("make-vocab-size-divisible-by");
  if (divisor && !IsByDeepSpeed(reading)) {
    reading.Set("training.make_vocab_size_divisible_by", *divisor, "make-vocab-size-divisible-by");
  }
  reading.SetIfOn("training.deterministic", "true", "deterministic-mode");
  ReadRecomputation(reading);
  reading.Apply("offloading");
  reading.Apply("tensor");
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
    .table = Program<MegatronTable>,
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
