#include "src/plan/request.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/check.h"
#include "src/parallel/named_schedules.h"
#include "src/plan/framework_policy.h"
#include "src/plan/framework_style.h"
#include "src/plan/settings.h"

namespace stepcast::plan {
namespace {

// torch.utils.checkpoint.set_checkpoint_early_stop: on since 2.1 for frameworks that use PyTorch's
// own checkpoints without reentrant autograd; checkpoint_sequential's are reentrant. DeepSpeed and
// Megatron have their own checkpoints, which recompute the whole block.
bool StopsRecomputationEarly(const Request& request) {
  return TraitsOf(*request.framework).of_pytorch &&
         request.blocks_per_checkpoint.value_or(1) == 1 &&
         request.torch.value_or(Software().torch) >= Version{2, 1};
}

model::Implementation DefaultNorm(const Request& request, bool compile) {
  if (compile) return model::Implementation::kCompiled;
  const model::Implementation own = StyleOf(*request.framework).layers.norm;
  if (own != model::Implementation::kEager) return own;
  // aten/src/ATen/native/layer_norm.cpp: one kernel since 2.9 (pytorch/pytorch pull request
  // 153666).
  return request.torch.value_or(Software().torch) < Version{2, 9} ? model::Implementation::kEager
                                                                  : model::Implementation::kFused;
}

model::Implementation DefaultRotary(const Request& request, bool compile) {
  return compile ? model::Implementation::kCompiled : StyleOf(*request.framework).layers.rotary;
}

// The attention kernel if none is requested.
//
// PyTorch's scaled_dot_product_attention prefers cuDNN's kernel on Hopper and Blackwell if cuDNN is
// newer than 9.15 (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp,
// check_prefer_cudnn_attention). Its packages have that since 2.11 (huggingface/transformers pull
// request 48163; seen on an H100). For documents of varying lengths it runs FlashAttention's.
// Transformer Engine prefers cuDNN's on both
// (transformer_engine/pytorch/attention/dot_product_attention/utils.py, get_attention_backend).
// Here it does so only on Blackwell, because published runs on Hopper differ.
//
// transformers' T5 adds a bias to the scores in memory, and computes the softmax in FP32.
//
// torchtitan's models with sinks, with values of another size than keys or with chunks run
// FlexAttention (torchtitan/models/{gpt_oss,deepseek_v3,llama4} @ v0.2.0 to v0.2.2, whose attn_type
// is "flex"; DeepSeek-V3 and Llama 4 also @ b5bcd76). PyTorch's scaled_dot_product_attention has no
// sinks, so transformers' GPT-OSS runs its eager code. Transformer Engine's only fused kernel with
// sinks is cuDNN's since 9.13.1 (transformer_engine/common/fused_attn/fused_attn.cpp,
// nvte_get_fused_attn_backend). Packages of PyTorch before 2.11 have 9.10, and scores are in memory
// (NVIDIA-NeMo/RL issue 1685).
model::Attention DefaultAttention(const Request& request, const ModelBlocks& model) {
  if (model.distances) return model::Attention::kMathFp32;
  constexpr Version kPrefersCudnn{2, 11};
  const bool recent = request.torch.value_or(Software().torch) >= kPrefersCudnn;
  const LayerStyle& layers = StyleOf(*request.framework).layers;
  const bool of_torchtitan = layers.experts == model::ExpertImplementation::kTorchtitan &&
                             ImplementationOf(request) == model::ExpertImplementation::kTorchtitan;
  if (of_torchtitan && (model.attention_sinks || model.narrow_values || model.attention_chunks)) {
    return model::Attention::kFlex;
  }
  const bool whole = request.context.value_or(1) == 1 && !request.lengths &&
                     request.document_length.value_or(0) == 0;  // else scores cannot be in memory
  if (model.attention_sinks && whole && !TraitsOf(*request.framework).textbook) {
    return layers.transformer_engine_attention && recent ? model::Attention::kCudnn
                                                         : model::Attention::kMath;
  }
  constexpr int kHopper = 9, kBlackwell = 10;
  const int major = request.compute_capability.value_or(0) / 10;
  const FrameworkTraits& traits = TraitsOf(*request.framework);
  const bool of_torch =
      traits.of_pytorch && recent && request.document_length.value_or(0) == 0 && !request.lengths;
  const bool cudnn = (of_torch && (major == kHopper || major == kBlackwell)) ||
                     (layers.transformer_engine_attention && major == kBlackwell);
  return cudnn ? model::Attention::kCudnn : model::Attention::kFlash;
}

}  // namespace

DataType FrozenType(const Request& request) {
  return request.frozen_dtype.value_or(ComputeType(request.precision.value_or(DataType::kBf16)));
}

DataType ParameterType(const Request& request) {
  // Only matrix products run in 8 bits or in TF32; nothing is kept or reduced in these types.
  return request.parameter_dtype.value_or(ComputeType(request.precision.value_or(DataType::kBf16)));
}

// torch/optim/adamw.py, sgd.py: states are zeros_like the parameter, and nothing else is kept. LAMB
// keeps FP32 values (NVIDIA/DeepLearningExamples' lamb_amp_opt, Apex's FusedMixedPrecisionLamb).
// megatron/core/optimizer/__init__.py: since Transformer Engine 2.1, the precision-aware optimizer
// keeps remainders for BF16 parameters.
OptimizerStates OptimizerStatesOf(const Request& request) {
  const DataType parameters = ParameterType(request);
  const bool short_moments =
      request.optimizer_state_dtype.value_or(DataType::kFp32) != DataType::kFp32;
  OptimizerStates states;
  if (SizeOf(parameters) == SizeOf(DataType::kFp32)) {
    states.master_weights = MasterWeights::kNone;
  } else if (request.master_weights) {
    states.master_weights = *request.master_weights;
  } else if (request.framework && TraitsOf(*request.framework).of_pytorch &&
             request.optimizer != Optimizer::kLamb) {
    states.master_weights = MasterWeights::kNone;
  } else if (request.framework && StyleOf(*request.framework).precision_aware_optimizer &&
             parameters == DataType::kBf16 && short_moments) {
    states.master_weights = MasterWeights::kFp16Remainder;
  }
  // bitsandbytes/optim/optimizer.py, init_state; transformers/optimization.py, Adafactor.
  const bool distributed = request.framework && StyleOf(*request.framework).distributed_tensors;
  const bool always_fp32 = request.optimizer == Optimizer::kLion ||
                           request.optimizer == Optimizer::kAdafactor ||
                           (request.optimizer == Optimizer::kAdamW8bit && !distributed);
  states.type = request.optimizer_state_dtype.value_or(
      states.master_weights == MasterWeights::kNone && !always_fp32 ? parameters : DataType::kFp32);
  return states;
}

namespace {

OptimizerImplementation DefaultOptimizerImplementation(const Request& request) {
  if (request.optimizer == Optimizer::kLamb) return OptimizerImplementation::kFused;
  if (request.optimizer && HasOwnKernels(*request.optimizer)) {
    return OptimizerImplementation::kSingle;
  }
  if (TraitsOf(*request.framework).fused_update) return OptimizerImplementation::kFused;
  // torch/optim/adamw.py: foreach by default on CUDA since 2.0.
  const bool one_by_one = request.torch.value_or(Software().torch) < Version{2, 0};
  return one_by_one || request.cpu_offload.value_or(false) ? OptimizerImplementation::kSingle
                                                           : OptimizerImplementation::kForeach;
}

}  // namespace

OptimizerImplementation OptimizerImplementationOf(const Request& request) {
  return request.optimizer_implementation.value_or(DefaultOptimizerImplementation(request));
}

namespace {

Training CompleteTraining(const Request& request, std::int64_t data, const ModelBlocks& model) {
  Training training;
  for (const TrainingSetting& setting : TrainingSettings()) setting.ApplyGiven(request, training);
  // Below: defaults that depend on other settings, and settings with a notation of their own.
  training.gradient_accumulation =
      request.gradient_accumulation
          ? *request.gradient_accumulation
          : *request.global_batch_size / (training.micro_batch_size * data);
  training.global_batch_size = training.micro_batch_size * training.gradient_accumulation * data;
  const FrameworkTraits& traits = TraitsOf(*request.framework);
  const FrameworkStyle& style = StyleOf(*request.framework);
  const DataType kept = ComputeType(training.precision);
  training.parameter_dtype = ParameterType(request);
  const OptimizerStates states = OptimizerStatesOf(request);
  training.master_weights = states.master_weights;
  training.optimizer_state_dtype = states.type;
  PolicyOf(*request.framework).SetGradientTypes(request, training);
  training.optimizer_implementation = OptimizerImplementationOf(request);
  training.recompute_modules = request.recompute_modules.value_or(model::RecomputedModules());
  training.checkpointed_blocks = request.checkpointed_blocks.value_or(model::Share());
  training.blocks_per_checkpoint = request.blocks_per_checkpoint.value_or(1);
  training.checkpoint_early_stop =
      request.checkpoint_early_stop.value_or(StopsRecomputationEarly(request));
  training.loss =
      request.loss.value_or(traits.apex_kernels ? model::Loss::kInPlace : model::Loss::kEager);
  training.attention = request.attention.value_or(DefaultAttention(request, model));
  training.norm = request.norm.value_or(DefaultNorm(request, training.compile));
  training.rotary = request.rotary.value_or(DefaultRotary(request, training.compile));
  // megatron/training/arguments.py: bias_swiglu_fusion is on by default.
  training.activation_function =
      request.activation_function.value_or(training.compile      ? model::Implementation::kCompiled
                                           : traits.apex_kernels ? model::Implementation::kFused
                                                                 : model::Implementation::kEager);
  // Code that rotates queries and keys operation by operation also copies keys and values for every
  // head. PyTorch's scaled_dot_product_attention has not needed that since 2.5 (enable_gqa):
  // torchtitan/models/llama3 (repeat_kv), transformers/models/llama (repeat_kv).
  training.repeat_kv = request.repeat_kv.value_or(model::IsUnfused(training.rotary));
  training.fp8_scaling = request.fp8_scaling.value_or(style.layers.fp8_scaling);
  training.masked_tokens = request.masked_tokens.value_or(0);
  training.lengths = request.lengths;
  training.document_length = request.document_length.value_or(0);
  training.autocast =
      (style.autocast || RunsAutocast(request)) && SizeOf(training.parameter_dtype) > SizeOf(kept);
  training.lora = request.lora.value_or(model::Lora());
  training.lora.frozen_dtype = FrozenType(request);
  training.gradient_clipping = request.gradient_clipping;
  training.data_loading = request.data_loading;
  training.checkpoint_saving = request.checkpoint_saving;
  training.dispatch = request.dispatch.value_or(Dispatch());
  return training;
}

DataParallel CompleteDataParallel(const Request& request, const Training& training,
                                  std::int64_t data) {
  DataParallel data_parallel;
  data_parallel.zero_stage = *request.zero_stage;
  data_parallel.framework = *request.framework;
  for (const DataParallelSetting& setting : DataParallelSettings()) {
    if (setting.uses.HasEffect(data_parallel.framework, data_parallel.zero_stage)) {
      setting.ApplyGiven(request, data_parallel);
    }
  }
  // Below: defaults that depend on further settings, and settings with a notation of their own.
  data_parallel.reshard_after_forward =
      request.reshard_after_forward.value_or(ReshardAfterForward(true));
  if (data_parallel.shard_group_size == 0) data_parallel.shard_group_size = data;
  data_parallel.powersgd = Complete(request.powersgd.value_or(PowerSgdRequest()));
  PolicyOf(data_parallel.framework).SetDefaults(request, training, data, data_parallel);
  // Shards over one rank are no shards, and shards over the whole group are the ordinary shards
  // (torch/distributed/fsdp/_fully_shard/_fsdp_init.py).
  if (const auto* ranks = std::get_if<std::int64_t>(&data_parallel.reshard_after_forward)) {
    if (*ranks == data_parallel.shard_group_size * request.context.value_or(1)) {
      data_parallel.reshard_after_forward = true;
    } else if (*ranks == 1) {
      data_parallel.reshard_after_forward = false;
    }
  }
  return data_parallel;
}

}  // namespace

RequestedSchedule ScheduleOf(const Request& request) {
  RequestedSchedule schedule;
  const bool interleaves = request.virtual_stages.value_or(1) > 1;
  schedule.name = request.schedule.value_or(interleaves ? kInterleaved : "1f1b");
  if (request.listed_schedule == nullptr) schedule.named = parallel::FindSchedule(schedule.name);
  std::int64_t chunks = 1;
  if (schedule.named != nullptr) chunks = schedule.named->chunks > 0 ? schedule.named->chunks : 2;
  if (request.listed_schedule != nullptr) {
    chunks = std::max<std::int64_t>(
        parallel::Chunks(*request.listed_schedule) / request.pipeline.value_or(1), 1);
  }
  const bool pipeline = request.pipeline.value_or(1) > 1;
  schedule.virtual_stages = pipeline ? request.virtual_stages.value_or(chunks) : 1;
  if (schedule.named != nullptr) {
    schedule.splits_backward = schedule.named->splits_backward;
  } else if (request.listed_schedule != nullptr) {
    schedule.splits_backward = parallel::SplitsBackward(*request.listed_schedule);
  }
  return schedule;
}

std::int64_t MicroBatchGroupOf(const Request& request, std::int64_t micro_batches) {
  const std::int64_t stages = request.pipeline.value_or(1);
  if (request.framework && StyleOf(*request.framework).engine == PipelineEngine::kTorch) {
    return std::max<std::int64_t>(
        1, micro_batches / std::max<std::int64_t>(1, micro_batches / stages));
  }
  return request.microbatch_group_size_per_vp_stage.value_or(stages);
}

namespace {

// nanotron/models/base.py (build_model): a stage takes blocks until the accumulated weights exceed
// its part of the total, the head included. Empty: a stage would have no block, or the head would
// come before the last stage.
std::vector<std::int64_t> StagesOfEqualWeights(const ModelBlocks& model, std::int64_t stages) {
  const auto of_block = static_cast<double>(model.of_block);
  const double all =
      static_cast<double>(model.count) * of_block + static_cast<double>(model.of_head);
  std::vector<std::int64_t> layers{0};
  for (std::int64_t block = 1; block <= model.count; ++block) {
    ++layers.back();
    const double part = static_cast<double>(layers.size()) / static_cast<double>(stages);
    if (static_cast<double>(block) * of_block > all * part) layers.push_back(0);
  }
  return static_cast<std::int64_t>(layers.size()) == stages ? layers : std::vector<std::int64_t>();
}

}  // namespace

std::vector<std::int64_t> StageLayersOf(const Request& request, const ModelBlocks& model,
                                        std::int64_t chunks) {
  if (request.stage_layers) return *request.stage_layers;
  const StageSplit split =
      request.framework ? StyleOf(*request.framework).stage_split : StageSplit::kEqual;
  if (split == StageSplit::kByWeights && model.of_block > 0) {
    return StagesOfEqualWeights(model, chunks);
  }
  // torchtitan/distributed/pipeline_parallel.py (generate_llm_fqn_per_model_part): the embedding
  // counts as a block, norm and head together as one. The first chunks take the remainder.
  const bool torchtitan = split == StageSplit::kWithEnds;
  const bool ends = torchtitan && model.has_ends;
  const int embedding = request.account_for_embedding_in_pipeline_split.value_or(ends) ? 1 : 0;
  const int head = request.account_for_loss_in_pipeline_split.value_or(ends) ? 1 : 0;
  const std::int64_t counted = model.count + embedding + head;
  if (counted < chunks || (counted % chunks != 0 && !torchtitan)) return {};
  std::vector<std::int64_t> layers(static_cast<std::size_t>(chunks), counted / chunks);
  for (std::int64_t chunk = 0; chunk < counted % chunks; ++chunk) {
    ++layers[static_cast<std::size_t>(chunk)];
  }
  layers.front() -= embedding;
  layers.back() -= head;
  return layers;
}

std::optional<std::int64_t> DataDegree(const Request& request,
                                       std::optional<std::int64_t> devices) {
  if (request.data) return request.data;
  if (!devices || *devices % request.ranks_per_replica() != 0) return std::nullopt;
  return *devices / request.ranks_per_replica();
}

model::ContextMethod ContextMethodOf(const Request& request) {
  if (request.context_method || !request.framework) {
    return request.context_method.value_or(LayerStyle().context_method);
  }
  return StyleOf(*request.framework).layers.context_method;
}

// megatron/training/arguments.py: expert_tensor_parallel_size defaults to
// tensor_model_parallel_size. Other frameworks do not divide experts.
std::int64_t ExpertTensorOf(const Request& request, bool mixture) {
  const bool divides =
      mixture && request.framework && StyleOf(*request.framework).layers.divides_experts;
  return request.expert_tensor.value_or(divides ? request.tensor.value_or(1) : 1);
}

model::ExpertImplementation ImplementationOf(const Request& request) {
  const LayerStyle& style = StyleOf(*request.framework).layers;
  const bool shared_out = request.expert.value_or(1) > 1;
  return request.expert_implementation.value_or(
      shared_out ? style.shared_out_experts.value_or(style.experts) : style.experts);
}

namespace {

// Number of neighboring expert ranks on one node. Ranks with different experts are neighbors; those
// with parts of the same experts are between them.
std::int64_t ExpertNeighbours(const Request& request, std::int64_t parts) {
  const std::int64_t ranks = request.expert.value_or(1);
  if (!request.node_devices ||
      !model::SendsTokensOnce(request.dispatcher.value_or(model::Dispatcher::kAllToAll))) {
    return 1;
  }
  return std::gcd(ranks, std::max<std::int64_t>(*request.node_devices / parts, 1));
}

Mixture CompleteMixture(const Request& request, const ModelBlocks& model, std::int64_t near) {
  const LayerStyle& style = StyleOf(*request.framework).layers;
  Mixture mixture;
  mixture.implementation = ImplementationOf(request);
  mixture.products = style.expert_products;
  // transformers/integrations/moe.py: grouped products if PyTorch has them.
  constexpr Version kHasGroupedProducts{2, 9};
  const bool slots = mixture.implementation == model::ExpertImplementation::kDeepSpeed;
  const bool asks_pytorch = mixture.implementation == model::ExpertImplementation::kTransformers ||
                            mixture.implementation == model::ExpertImplementation::kAutoEp;
  if (slots || (asks_pytorch && request.torch.value_or(Software().torch) < kHasGroupedProducts)) {
    mixture.products = model::ExpertProducts::kLooped;
  }
  mixture.fused_router = style.fused_router;
  mixture.fused_permutation = style.fused_permutation;
  const bool torchtitan = mixture.implementation == model::ExpertImplementation::kTorchtitan;
  if (slots || (style.fp32_router && torchtitan)) mixture.router_dtype = DataType::kFp32;
  mixture.pad_to_capacity = slots;
  for (const MixtureSetting& setting : MixtureSettings()) {
    if (setting.uses.HasEffect(*request.framework, *request.zero_stage)) {
      setting.ApplyGiven(request, mixture);
    }
  }
  mixture.imbalance = request.imbalance.value_or(1);
  const std::int64_t nodes = request.expert.value_or(1) / near;
  if (!request.node_limit && model.expert_groups == nodes) {
    mixture.node_limit = model.groups_per_token;
  }
  if (mixture.node_limit >= nodes) mixture.node_limit = 0;  // all are open
  mixture.capacity_factor = request.capacity_factor;
  if (slots && !mixture.capacity_factor) mixture.capacity_factor = 1;
  return mixture;
}

}  // namespace

Plan Complete(const Request& request, std::int64_t devices, const ModelBlocks& model) {
  STEPCAST_CHECK(request.sequence_length && request.micro_batch_size && request.precision &&
                     request.optimizer && request.zero_stage && request.framework &&
                     (request.gradient_accumulation || request.global_batch_size),
                 "a request must be checked before it is completed");
  const std::optional<std::int64_t> data = DataDegree(request, devices);
  STEPCAST_CHECK(data.has_value(), "a request must be checked before it is completed");
  Plan plan;
  plan.training = CompleteTraining(request, *data, model);
  const std::int64_t stages = request.pipeline.value_or(1);
  plan.parallelism = {
      .data = *data,
      .tensor = request.tensor.value_or(1),
      .pipeline = stages,
      .context = request.context.value_or(1),
      .expert = request.expert.value_or(1),
      .expert_tensor = ExpertTensorOf(request, model.mixture),
      .expert_near = ExpertNeighbours(request, ExpertTensorOf(request, model.mixture)),
      .context_method = ContextMethodOf(request),
      .context_inner = request.context.value_or(1) > 1 ? request.context_inner.value_or(1) : 1,
      .sequence_parallel =
          request.tensor.value_or(1) > 1 && request.sequence_parallel.value_or(false)};
  if (stages > 1) {
    RequestedSchedule schedule = ScheduleOf(request);
    plan.parallelism.virtual_stages = schedule.virtual_stages;
    const std::int64_t chunks = stages * plan.parallelism.virtual_stages;
    plan.parallelism.schedule = std::move(schedule.name);
    plan.parallelism.listed = request.listed_schedule;
    if (plan.parallelism.schedule == kInterleaved) {
      plan.parallelism.microbatch_group_size_per_vp_stage =
          MicroBatchGroupOf(request, plan.training.gradient_accumulation);
    }
    plan.parallelism.splits_backward = schedule.splits_backward;
    plan.parallelism.stage_layers = StageLayersOf(request, model, chunks);
  }
  plan.mixture = CompleteMixture(request, model, plan.parallelism.expert_near);
  plan.data_parallel = CompleteDataParallel(request, plan.training, *data);
  // Combined 1F1B needs several connections.
  const std::int64_t connections =
      plan.mixture.overlap_communication ? 0 : StyleOf(*request.framework).connections;
  plan.software = {request.torch.value_or(Software().torch), request.nccl.value_or(Software().nccl),
                   request.driver.value_or(Software().driver),
                   request.expandable_segments.value_or(false),
                   request.cuda_device_max_connections.value_or(
                       connections > 0 ? connections : Software().cuda_device_max_connections)};
  return plan;
}

}  // namespace stepcast::plan
