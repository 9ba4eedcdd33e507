#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/emit/trainers.h"
#include "src/model/stage.h"
#include "src/plan/plan.h"
#include "src/plan/request.h"

namespace stepcast::emit {
namespace {

// Named models of torchtitan (pytorch/torchtitan@000204a4 torchtitan/models/llama3/__init__.py).
// The feed-forward width is 2/3 of four times the hidden size, times a factor, rounded up, in
// model.py. All have Llama 3's vocabulary, rotary base and epsilon.
struct Flavor {
  const char* name;
  std::int64_t layers, hidden, heads, kv_heads, feed_forward;
};
constexpr std::array<Flavor, 3> kFlavors = {{{"8B", 32, 4096, 32, 8, 14336},
                                             {"70B", 80, 8192, 64, 8, 28672},
                                             {"405B", 126, 16384, 128, 8, 53248}}};
constexpr std::int64_t kVocabulary = 128'256;
constexpr double kRotaryBase = 500'000;
constexpr double kNormEpsilon = 1e-5;

// The flavor's name, or why no flavor is this model.
Target FlavorOf(const model::Model& model, const model::NumericalConstants& constants) {
  const auto* architecture = std::get_if<model::Architecture>(&model.source);
  if (architecture == nullptr)
    return CannotRun("the model is a layer list, which has no dimensions");
  const model::Architecture& a = *architecture;
  if (!a.kinds.empty()) {
    return CannotRun(
        "stepcast writes torchtitan's llama3, which has only blocks of one kind (blocks)");
  }
  if (!model::TraitsOf(a).torchtitan || a.attention_bias || a.projection_bias ||
      a.feed_forward_bias || a.tie_embeddings || a.dropout || a.attention_dropout) {
    return CannotRun("torchtitan's llama3 has no biases, no tied embeddings and no dropout");
  }
  for (const Flavor& flavor : kFlavors) {
    if (a.layers != flavor.layers || a.hidden != flavor.hidden || a.heads != flavor.heads ||
        a.kv_heads != flavor.kv_heads || a.head_size * a.heads != a.hidden) {
      continue;
    }
    const auto differs = [&](const char* what, auto its, auto planned) {
      return CannotRun(
          fmt::format("torchtitan's model llama3 {} has {} {}, but the model of the plan has {}",
                      flavor.name, what, its, planned));
    };
    if (a.feed_forward != flavor.feed_forward) {
      return differs("a feed-forward width of", flavor.feed_forward, a.feed_forward);
    }
    if (a.vocabulary != kVocabulary) return differs("a vocabulary of", kVocabulary, a.vocabulary);
    if (constants.rotary_base != kRotaryBase) {
      return differs("a rotary base of", kRotaryBase, constants.rotary_base);
    }
    if (constants.norm_epsilon != kNormEpsilon) {
      return differs("a norm epsilon of", kNormEpsilon, constants.norm_epsilon);
    }
    if (constants.rotary_scaling && *constants.rotary_scaling != model::RotaryScaling()) {
      return CannotRun(
          "torchtitan supports only Llama 3.1's scaling of rotary positions, or no scaling "
          "(rope_scaling)");
    }
    return std::string(flavor.name);
  }
  return CannotRun("torchtitan has no llama3 model with the dimensions of the plan's model");
}

// Classes of torch.distributed.pipelining by our names; nullptr if there is none.
const char* ScheduleClass(const plan::Parallelism& axes) {
  constexpr std::pair<std::string_view, const char*> kClasses[] = {
      {"1f1b", "1F1B"},
      {"gpipe", "GPipe"},
      {"interleaved_1f1b", "Interleaved1F1B"},
      {"breadth_first", "LoopedBFS"},
      {"zb_v", "ZBVZeroBubble"},
      {"dualpipe_v", "DualPipeV"}};
  if (axes.listed != nullptr) return nullptr;
  for (const auto& [name, its] : kClasses) {
    if (axes.schedule == name) return its;
  }
  return nullptr;
}

// The default number of chunks per stage, if layers per chunk are not given.
std::int64_t DefaultChunks(const plan::Parallelism& axes) {
  return axes.schedule == "1f1b" || axes.schedule == "gpipe" ? 1 : 2;
}

// The most layers of a chunk, including embedding and head.
std::int64_t LayersPerStage(const plan::Parallelism& axes, std::int64_t blocks) {
  const std::int64_t chunks = axes.pipeline * axes.virtual_stages;
  return (blocks + 2 + chunks - 1) / chunks;
}

// Keys of a pipeline after the degrees. A step uses the micro-batches of one local batch.
std::string PipelineKeys(const plan::Plan& plan, std::int64_t blocks) {
  const plan::Parallelism& axes = plan.parallelism;
  if (axes.pipeline == 1) return "";
  std::string text =
      fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                  ScheduleClass(axes), plan.training.micro_batch_size);
  if (axes.virtual_stages != DefaultChunks(axes)) {
    text += fmt::format("pipeline_parallel_layers_per_stage = {}\n", LayersPerStage(axes, blocks));
  }
  return text;
}

// Why torchtitan cannot run the pipeline; empty if it can.
std::string PipelineObstacle(plan::Framework framework, const plan::Parallelism& axes,
                             std::int64_t blocks) {
  if (ScheduleClass(axes) == nullptr) {
    return "torch.distributed.pipelining does not support the schedule (parallelism.schedule)";
  }
  plan::Request request;
  request.framework = framework;
  const std::int64_t chunks = axes.pipeline * axes.virtual_stages;
  const std::int64_t most = LayersPerStage(axes, blocks);
  const bool makes_chunks =
      axes.virtual_stages == DefaultChunks(axes) || (blocks + 2 + most - 1) / most == chunks;
  if (!makes_chunks ||
      axes.stage_layers != plan::StageLayersOf(request, {.count = blocks}, chunks)) {
    return "torchtitan divides layers among stages differently than the plan "
           "(parallelism.stage_layers)";
  }
  return "";
}

// Why torchtitan cannot train the plan; empty if it can.
std::string Obstacle(const plan::Plan& plan, std::int64_t blocks) {
  const plan::Training& training = plan.training;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  if (!TrainerOf(plan).takes_torchtitan_toml) {
    return "torchtitan runs only plans with fsdp2, because the bucket size of torchtitan's DDP "
           "cannot be set";
  }
  if (training.lora.adapts()) return "torchtitan does not support adapters (training.lora)";
  if (training.parameter_dtype != DataType::kFp32) {
    return "torchtitan stores parameters in FP32 (training.parameter_dtype)";
  }
  if (training.reduce_dtype != DataType::kFp32) {
    return "torchtitan's mixed_precision_reduce can only be float32 (training.reduce_dtype)";
  }
  if (training.precision == DataType::kFp16)
    return "torchtitan does not compute in FP16 (training.precision)";
  if (IsQuantized(training.precision) && training.precision != DataType::kFp8) {
    return "stepcast does not write torchtitan's settings for MXFP8 and NVFP4 (training.precision)";
  }
  if (training.precision == DataType::kFp8 && training.fp8_scaling != model::Fp8Scaling::kTorchao &&
      training.fp8_scaling != model::Fp8Scaling::kTorchaoRowwise) {
    return "torchtitan uses the FP8 layers of torchao (training.fp8_scaling)";
  }
  if (!training.gradient_clipping) {
    return "torchtitan clips gradients in every step (training.gradient_clipping)";
  }
  if (training.activation_offload) {
    return "torchtitan does not offload activations (training.activation_offload)";
  }
  if (training.activation_checkpointing != model::Checkpointing::kNone &&
      !training.checkpointed_blocks.all()) {
    return "torchtitan cannot checkpoint the plan's selection of blocks "
           "(training.checkpointed_blocks)";
  }
  if (training.activation_checkpointing != model::Checkpointing::kNone &&
      !training.checkpoint_early_stop) {
    return "torchtitan stops recomputation early (training.checkpoint_early_stop is false)";
  }
  if (data_parallel.units != plan::WrappedUnits::kBlock) {
    return "the FSDP units of torchtitan are the blocks, without the embedding and the head "
           "(data_parallel.units)";
  }
  if (data_parallel.unit_blocks != 1)
    return "torchtitan makes each block a separate FSDP unit (data_parallel.unit_blocks)";
  if (training.attention != model::Attention::kFlash &&
      training.attention != model::Attention::kCudnn) {
    return "torchtitan runs PyTorch's attention kernels, flash or cudnn (training.attention)";
  }
  if (training.optimizer != plan::Optimizer::kAdamW)
    return "torchtitan's optimizer is AdamW (training.optimizer)";
  if (!plan::HasStatesOfUpdatedType(training)) {
    return "AdamW of torch.optim stores moments in the data type of the parameters "
           "(training.optimizer_state_dtype)";
  }
  if (plan.mixture.implementation == model::ExpertImplementation::kTransformers) {
    return "torchtitan supports only its own expert layers (experts.implementation)";
  }
  if (training.activation_checkpointing == model::Checkpointing::kSelective) {
    return "torchtitan cannot recompute only the attention core (training.activation_checkpointing "
           "is selective)";
  }
  if (std::holds_alternative<std::int64_t>(data_parallel.reshard_after_forward)) {
    return "torchtitan's fsdp_reshard_after_forward must be always or never, not a number of ranks";
  }
  if (data_parallel.shard_group_size == 1 && plan.parallelism.data > 1 &&
      plan.parallelism.context == 1) {
    return "torchtitan runs DDP if data_parallel.shard_group_size is 1, because nothing is sharded";
  }
  if (data_parallel.prefetch != 1)
    return "torchtitan prefetches exactly one unit (data_parallel.prefetch)";
  if (plan.parallelism.tensor > 1 && !plan.parallelism.sequence_parallel) {
    return "torchtitan's tensor parallelism includes sequence parallelism "
           "(parallelism.sequence_parallel is false)";
  }
  if (plan.parallelism.pipeline > 1) {
    return PipelineObstacle(data_parallel.framework, plan.parallelism, blocks);
  }
  if (data_parallel.accumulate_unsharded && training.gradient_accumulation > 1) {
    return "torchtitan reduces gradients in every micro-batch (data_parallel.accumulate_unsharded)";
  }
  return "";
}

const char* Implementation(plan::OptimizerImplementation implementation) {
  switch (implementation) {
    case plan::OptimizerImplementation::kSingle:
      return "for-loop";
    case plan::OptimizerImplementation::kFused:
    case plan::OptimizerImplementation::kForeach:
      break;
  }
  return plan::Name(implementation);
}

}  // namespace

Target TorchtitanConfig(const scenario::Scenario& scenario,
                        const model::NumericalConstants& constants) {
  const plan::Plan& plan = scenario.plan;
  const plan::Training& training = plan.training;
  const plan::DataParallel& data_parallel = plan.data_parallel;
  const std::int64_t blocks = model::Blocks(*scenario.model);
  if (std::string obstacle = Obstacle(plan, blocks); !obstacle.empty()) {
    return CannotRun(std::move(obstacle));
  }
  const Target flavor = FlavorOf(*scenario.model, constants);
  if (!flavor) return CannotRun(flavor.error());
  std::string text =
      "# torchtitan's job configuration, with the keys of pytorch/torchtitan@000204a4.\n"
      "# Written by `stepcast`. plan.json in this folder is the complete plan.\n\n"
      "[model]\n";
  text += fmt::format("name = \"llama3\"\nflavor = \"{}\"\n", *flavor);
  if (training.precision == DataType::kFp8) text += "converters = [\"float8\"]\n";
  text += fmt::format(
      "\n[optimizer]\nname = \"AdamW\"\nimplementation = \"{}\"\n"
      "\n[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n"
      "mixed_precision_param = \"{}\"\nmixed_precision_reduce = \"float32\"\ncompile = {}\n"
      "max_norm = {}\n",
      Implementation(training.optimizer_implementation),
      training.micro_batch_size *
          (plan.parallelism.pipeline > 1 ? training.gradient_accumulation : 1),
      training.global_batch_size, training.sequence_length,
      plan::ComputeType(training.precision) == DataType::kFp32 ? "float32" : "bfloat16",
      training.compile, *training.gradient_clipping);
  text += fmt::format(
      "\n[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n"
      "pipeline_parallel_degree = {}\ncontext_parallel_degree = {}\n",
      plan.parallelism.data / data_parallel.shard_group_size, data_parallel.shard_group_size,
      std::get<bool>(data_parallel.reshard_after_forward) ? "always" : "never",
      plan.parallelism.tensor, plan.parallelism.pipeline, plan.parallelism.context);
  if (plan.parallelism.context > 1) {
    // torchtitan's "alltoall" passes keys and values on to the next rank.
    text += fmt::format(
        "context_parallel_rotate_method = \"{}\"\n",
        plan.parallelism.context_method == model::ContextMethod::kRing ? "alltoall" : "allgather");
  }
  text += PipelineKeys(plan, blocks);
  if (training.tensor_overlap == model::TensorOverlap::kAsync) {
    text += "enable_async_tensor_parallel = true\n";
  }
  text += "\n[activation_checkpoint]\n";
  switch (training.activation_checkpointing) {
    case model::Checkpointing::kNone:
    case model::Checkpointing::kSelective:
      text += "mode = \"none\"\n";
      break;
    case model::Checkpointing::kFull:
      text += "mode = \"full\"\n";
      break;
    case model::Checkpointing::kSelectiveOp:
      text += "mode = \"selective\"\nselective_ac_option = \"op\"\n";
      break;
  }
  if (training.precision == DataType::kFp8) {
    text += training.fp8_scaling == model::Fp8Scaling::kTorchaoRowwise
                ? "\n[float8]\nrecipe_name = \"rowwise\"\n"
                : "\n[float8]\nrecipe_name = \"tensorwise\"\n";
  }
  return text;
}

}  // namespace stepcast::emit
