#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "src/foreign/readers.h"
#include "src/foreign/shared_options.h"

namespace stepcast::foreign {
namespace {

constexpr std::string_view kSchedules =
    "1F1B=1f1b GPipe=gpipe Interleaved1F1B=interleaved_1f1b LoopedBFS=breadth_first "
    "ZBVZeroBubble=zb_v DualPipeV=dualpipe_v";
constexpr std::string_view kTypes = "float32=fp32 bfloat16=bf16 float16=fp16";

// Reads models of the registry that the data root has.
void ReadModel(Reading& reading, std::string_view model, std::string_view flavor,
               std::string_view because_of) {
  const scenario::YamlNode& models = *scenario::Child(Table<ModelsTable>(), "torchtitan");
  const auto known = WordFor(TextAt(models, model), flavor);
  if (known) {
    reading.Set("model", std::string(*known), because_of, fmt::format("{} {}", model, flavor));
  } else if (!flavor.empty() && !reading.draft().Has("model")) {
    reading.draft().NameModel(fmt::format("torchtitan's {} {}", model, flavor));
  }
}

// Sharded, replicated, or both; with 1 and 1, one device is a shard group of one.
void ReadDataParallel(Reading& reading) {
  const std::string_view kReplicate = "parallelism.data_parallel_replicate_degree";
  const std::string_view kShard = "parallelism.data_parallel_shard_degree";
  const std::int64_t replicas = reading.Integer(kReplicate).value_or(1);
  const std::int64_t shards = reading.Integer(kShard).value_or(-1);
  const bool replicates = replicas > 1;
  // Context-parallel ranks share a sharded copy of the states too.
  const bool shares = reading.draft().Integer("parallelism.context").value_or(1) > 1;
  if (replicates && shards == 1 && !shares) {
    reading.Set("data_parallel.framework", "ddp", kShard, "replicas without shards");
    reading.Set("data_parallel.zero_stage", "0", kShard);
    reading.Set("parallelism.data", replicas, kReplicate);
    return;
  }
  reading.Set("data_parallel.framework", "fsdp2", kShard);
  reading.Set("data_parallel.zero_stage", "3", kShard);
  const std::string_view reshard = "parallelism.fsdp_reshard_after_forward";
  const std::string policy = reading.Text(reshard);
  if (policy == "always" || policy == "never") {
    reading.Set("data_parallel.reshard_after_forward", policy == "always", reshard);
  }
  if (shards > 0) {
    reading.Set("parallelism.data", shards * std::max<std::int64_t>(replicas, 1), kShard,
                replicates ? "times the replicas" : "");
    if (replicates) reading.Set("data_parallel.shard_group_size", shards, kShard);
    return;
  }
  if (!replicates) return;
  ReadCopies(reading, kShard, replicas,
             "the number of GPUs divided by the degrees of the other axes of parallelism");
}

void ReadTensorParallel(Reading& reading, std::string_view asynchronous) {
  if (reading.draft().Integer("parallelism.tensor").value_or(1) == 1) return;
  const std::string_view degree = "parallelism.tensor_parallel_degree";
  const auto stated = reading.Get("parallelism.enable_sequence_parallel");
  const bool divides_tokens = !stated || stated->Boolean().value_or(true);
  reading.Set("parallelism.sequence_parallel", divides_tokens, degree);
  reading.SetIfOn("training.tensor_overlap", "async", asynchronous);
}

void ReadExperts(Reading& reading) {
  const std::string_view option = "parallelism.expert_parallel_degree";
  const std::int64_t degree = reading.Integer(option).value_or(1);
  if (degree > 1) reading.Set("parallelism.expert", degree, option);
  const std::string_view parts = "parallelism.expert_tensor_parallel_degree";
  if (reading.Integer(parts).value_or(1) > 1) {
    reading.Omit(parts, "each tensor-parallel rank stores complete experts");
  }
}

// A pipeline divides one local batch into micro-batches.
void ReadSchedule(Reading& reading) {
  const std::string_view option = "parallelism.pipeline_parallel_schedule";
  const std::int64_t stages = reading.draft().Degree("parallelism.pipeline");
  if (stages == 1) return;
  const std::string name = reading.Text(option);
  if (const auto word = WordFor(kSchedules, name)) {
    reading.Set("parallelism.schedule", std::string(*word), option);
  } else {
    reading.Omit(option, "the schedule is 1F1B");
  }
  const std::string_view per_stage = "parallelism.pipeline_parallel_layers_per_stage";
  const auto most = reading.Integer(per_stage);
  if (!most || *most < 1 || *most > 1'000'000) return;
  // The embedding and the head count as this many layers.
  const auto less = [&reading](std::string_view key) {
    return std::clamp<std::int64_t>(reading.Integer(key).value_or(1), 0, 1'000'000);
  };
  const std::int64_t ends = less("parallelism.pipeline_parallel_first_stage_less_layers") +
                            less("parallelism.pipeline_parallel_last_stage_less_layers");
  const auto layers = reading.layers();
  const std::int64_t chunks =
      layers ? (std::clamp<std::int64_t>(*layers, 0, 1'000'000) + ends + *most - 1) / *most : 0;
  if (chunks > 0 && chunks % stages == 0) {
    reading.Set("parallelism.virtual_stages", chunks / stages, per_stage);
  } else {
    reading.Omit(per_stage, "set parallelism.virtual_stages or parallelism.stage_layers");
  }
}

// torchtitan/components/optimizer.py: with updates in the backward pass, no gradient is left to
// clip.
void ReadClipping(Reading& reading) {
  constexpr const char* kEarly = "optimizer.early_step_in_backward";
  if (reading.Text("optimizer").starts_with("OptimizersInBackward")) return;  // none
  if (reading.IsOn(kEarly)) {
    reading.Set("training.optimizer_in_backward", "true", kEarly);
    reading.Set("training.gradient_clipping", "none", kEarly);
    return;
  }
  const auto norm = reading.Get("training.max_norm");
  const auto limit = norm ? norm->Number() : std::nullopt;
  if (!limit) return;
  reading.Set("training.gradient_clipping", *limit > 0 ? fmt::format("{}", *limit) : "none",
              "training.max_norm");
}

// Sets a head and loss in this many chunks of a micro-batch's tokens; nothing: Liger's division.
void ReadChunkedLoss(Reading& reading, std::string_view option, std::optional<std::int64_t> parts) {
  Draft& draft = reading.draft();
  if (draft.Degree("parallelism.tensor") > 1) {
    reading.Omit(
        option,
        "all logits of a micro-batch are in memory at once, so the memory forecast is too high");
    return;
  }
  reading.Set("training.loss", "chunked", option);
  const auto batch = draft.Integer("training.micro_batch_size");
  const auto sequence = draft.Integer("training.sequence_length");
  if (!parts || *parts < 1 || !batch || !sequence) return;
  const std::int64_t context = draft.Degree("parallelism.context");
  const std::int64_t tokens = std::clamp<std::int64_t>(*batch, 1, 1 << 20) *
                              std::clamp<std::int64_t>(*sequence, 1, 1 << 24) / context;
  reading.Set("training.loss_chunk", (tokens + *parts - 1) / *parts, option,
              fmt::format("{} parts of {} tokens", *parts, tokens));
}

void ReadCompile(Reading& reading, bool compiles, std::string_view because_of) {
  const Setting* components = reading.Stated("compile.components");
  const auto has = [components](std::string_view part) {
    if (components == nullptr) return true;
    const std::vector<std::string> items = components->value.Words();
    return std::find(items.begin(), items.end(), part) != items.end();
  };
  reading.Set("training.compile", compiles && has("model"), because_of);
  // torch.compile fuses the loss into one kernel.
  if (compiles && !reading.draft().Has("training.loss"))
    reading.Set("training.loss", has("loss") ? "fused" : "eager", because_of);
}

void ReadPrecision(Reading& reading, bool float8, std::string_view because_of) {
  const std::string_view option = "training.mixed_precision_param";
  if (!float8) {
    const auto word = WordFor(kTypes, reading.Text(option));
    reading.Set("training.precision", std::string(word.value_or("bf16")), option);
    return;
  }
  reading.Set("training.precision", "fp8", because_of);
  for (const char* recipe : {"float8.recipe_name", "quantize.linear.float8.recipe_name",
                             "quantize.dense.float8.recipe_name"}) {
    const std::string name = reading.Text(recipe);
    if (name.empty()) continue;
    reading.Set("training.fp8_scaling", name == "tensorwise" ? "torchao" : "torchao_rowwise",
                recipe);
    if (name != "tensorwise" && name != "rowwise") {
      reading.Omit(recipe, "the matrix multiplications of weight gradients also run in 8 bits");
    }
  }
}

void ReadCheckpointing(Reading& reading) {
  reading.Apply(Table<TorchtitanTable>(), "recomputation");
}

// Before this option existed, recomputation stopped early by default, as in PyTorch.
void ReadEarlyStop(Reading& reading) {
  const std::string_view option = "activation_checkpoint.early_stop";
  const bool older = reading.Stated("training.compile") != nullptr ||
                     reading.Stated("training.batch_size") != nullptr ||
                     reading.document().Has("float8");
  if (older && reading.Stated(option) == nullptr) return;
  if (reading.Text("activation_checkpoint.mode") == "none") return;
  reading.Set("training.checkpoint_early_stop", reading.IsOn(option), option);
}

void ReadBatch(Reading& reading) {
  const std::string_view local = reading.Stated("training.batch_size") != nullptr
                                     ? "training.batch_size"
                                     : "training.local_batch_size";
  const std::int64_t batch = reading.Integer(local).value_or(8);
  const std::int64_t stages = reading.draft().Degree("parallelism.pipeline");
  const std::string_view micro = "parallelism.pipeline_parallel_microbatch_size";
  const std::int64_t micro_batch =
      stages > 1 ? std::max<std::int64_t>(reading.Integer(micro).value_or(1), 1) : batch;
  reading.Set("training.micro_batch_size", micro_batch, stages > 1 ? micro : local);
  const std::string_view global = "training.global_batch_size";
  const std::int64_t sequences = reading.Integer(global).value_or(-1);
  if (sequences > 0) {
    reading.Set("training.global_batch_size", sequences, global);
  } else {
    reading.Set("training.gradient_accumulation", batch / std::max<std::int64_t>(micro_batch, 1),
                stages > 1 ? local : global);
  }
}

// Variables that torchtitan's launcher sets: run_train.sh.
void ReadAllocator(Reading& reading) {
  reading.draft().Assume("software.expandable_segments", "true",
                         "torchtitan's run_train.sh sets PYTORCH_CUDA_ALLOC_CONF");
}

void TomlRules(Reading& reading) {
  ReadModel(reading, reading.Text("model.name"), reading.Text("model.flavor"), "model.flavor");
  ReadDataParallel(reading);
  ReadTensorParallel(reading, "parallelism.enable_async_tensor_parallel");
  ReadExperts(reading);
  ReadSchedule(reading);
  ReadBatch(reading);
  ReadClipping(reading);
  reading.Apply(Table<TorchtitanTable>(), "states");
  const std::string_view fused_head = "liger_kernel.enable_fused_linear_cross_entropy";
  if (reading.IsOn(fused_head)) ReadChunkedLoss(reading, fused_head, std::nullopt);
  const bool by_training = reading.Stated("training.compile") != nullptr;
  ReadCompile(reading, reading.IsOn(by_training ? "training.compile" : "compile.enable"),
              by_training ? "training.compile" : "compile.enable");
  const auto converters = reading.Get("model.converters");
  std::string listed = converters ? converters->text : "";
  if (converters) {
    for (const std::string& item : converters->items) listed += " " + item;
  }
  const bool mx = listed.find("mx") != std::string::npos;
  if (mx) {
    reading.Set("training.precision", "mxfp8", "model.converters");
  } else {
    ReadPrecision(reading, listed.find("float8") != std::string::npos, "model.converters");
  }
  ReadCheckpointing(reading);
  ReadEarlyStop(reading);
  if (reading.draft().Integer("parallelism.context").value_or(1) > 1) {
    const std::string_view rotate = "parallelism.context_parallel_rotate_method";
    reading.Set("parallelism.context_method",
                reading.Text(rotate) == "alltoall" ? "ring" : "all_gather", rotate);
  }
  ReadAllocator(reading);
}

// Micro-batch and step are given in tokens.
void ReadTokens(Reading& reading) {
  if (reading.Stated("training.local_batch_size") != nullptr) {
    ReadBatch(reading);
    return;
  }
  const std::string_view tokens = "training.num_tokens_per_microbatch_per_dp_rank";
  const std::int64_t in_micro_batch = reading.Integer(tokens).value_or(16384);
  const std::int64_t length = reading.Integer("training.max_context_length").value_or(2048);
  if (length < 1 || in_micro_batch % length != 0) {
    reading.Wrong(
        tokens,
        fmt::format("a micro-batch of {} tokens is not a multiple of the sequence length {}",
                    in_micro_batch, length),
        "set the number of sequences and their length: --set training.micro_batch_size=1 --set "
        "training.sequence_length=TOKENS");
    return;
  }
  const std::int64_t sequences = in_micro_batch / length;
  reading.Set("training.micro_batch_size", sequences, tokens,
              fmt::format("{} tokens", in_micro_batch));
  const std::string_view step = "training.num_tokens_per_train_step";
  const std::int64_t in_step = reading.Integer(step).value_or(-1);
  if (in_step > 0) {
    reading.Set("training.global_batch_size", in_step / length, step,
                fmt::format("{} tokens", in_step));
    return;
  }
  const std::int64_t stages = reading.draft().Degree("parallelism.pipeline");
  const std::string_view count = "parallelism.num_pp_microbatches";
  const std::int64_t micro_batches = stages > 1 ? reading.Integer(count).value_or(1) : 1;
  reading.Set("training.gradient_accumulation", micro_batches, stages > 1 ? count : step);
}

void ReadCheckpointingClass(Reading& reading) {
  if (reading.Text("activation_checkpoint") != "ActivationCheckpointConfig") {
    return reading.Apply("recomputation");
  }
  // Until 2026.
  ReadCheckpointing(reading);
  reading.Set("training.checkpoint_early_stop", reading.IsOn("activation_checkpoint.early_stop"),
              "activation_checkpoint.early_stop");
}

// Reads the list of classes that replace linear layers.
void ReadConverters(Reading& reading) {
  const std::string_view option = reading.Stated("model_spec.converters") != nullptr
                                      ? "model_spec.converters"
                                      : "model_converters.converters";
  const Setting* stated = reading.Stated(option);
  bool float8 = false;
  if (stated != nullptr) {
    for (const std::string& converter : stated->value.items) {
      const bool own = converter.starts_with("Float8Linear");
      float8 = float8 || own;
      if (!own)
        reading.Omit(option,
                     "matrix multiplications run in 16 bits; to use another precision, set "
                     "training.precision");
    }
  }
  ReadPrecision(reading, float8, option);
  const std::string_view recipe = "model_converters.converters.0.recipe_name";
  if (!float8) return;
  reading.Set("training.fp8_scaling",
              reading.Text(recipe) == "rowwise" ? "torchao_rowwise" : "torchao",
              reading.Stated(recipe) != nullptr ? recipe : option);
}

void PythonRules(Reading& reading) {
  // Functions are named after their model: llama3_8b.
  const std::string function = reading.Text("function");
  const bool positional = reading.Stated("model_spec.0") != nullptr;
  const std::string_view flavor = positional ? "model_spec.0" : "model_spec.flavor";
  ReadModel(reading, function.substr(0, function.find('_')), reading.Text(flavor), flavor);
  ReadDataParallel(reading);
  ReadTensorParallel(reading, reading.Stated("parallelism.enable_async_tensor_parallel") != nullptr
                                  ? "parallelism.enable_async_tensor_parallel"
                                  : "compile.enable_async_tensor_parallel");
  ReadExperts(reading);
  ReadSchedule(reading);
  ReadTokens(reading);
  ReadClipping(reading);
  reading.Apply(Table<TorchtitanTable>(), "states");
  if (reading.Text("loss").starts_with("Chunked")) {
    ReadChunkedLoss(reading, "loss", reading.Integer("loss.num_chunks"));
  }
  // Present releases compile if there is a CompileConfig; earlier ones had a switch in it.
  const bool has_switch = reading.Stated("compile.enable") != nullptr;
  const std::string compile = reading.Text("compile");
  ReadCompile(reading,
              has_switch ? reading.IsOn("compile.enable") : !compile.empty() && compile != "None",
              has_switch ? "compile.enable" : "compile");
  ReadConverters(reading);
  ReadCheckpointingClass(reading);
  reading.Apply("optimizer");
  ReadAllocator(reading);
}

}  // namespace

const Framework kTorchtitan = {.name = "torchtitan",
                               .form = "torchtitan's job configuration (TOML)",
                               .release = "238fa9953e4a",
                               .table = Program<TorchtitanTable>,
                               .rules = TomlRules};

const Framework kTorchtitanPython = {.name = "torchtitan",
                                     .form = "torchtitan's configuration in Python",
                                     .release = "f204eb63c07b",
                                     .table = Program<TorchtitanPythonTable>,
                                     .rules = PythonRules};

bool IsTorchtitan(const Document& document) {
  const bool trains = document.Has("training") || document.Has("parallelism");
  return trains &&
         (document.Has("model.flavor") || document.Has("model_spec") ||
          document.Has("training.local_batch_size") || document.Has("training.batch_size") ||
          document.Has("parallelism.data_parallel_shard_degree") ||
          document.Has("activation_checkpoint"));
}

}  // namespace stepcast::foreign
