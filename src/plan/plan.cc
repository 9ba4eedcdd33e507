#include "src/plan/plan.h"

#include <algorithm>

#include "src/plan/framework_style.h"

namespace stepcast::plan {

std::int64_t GradientRanks(const Plan& plan) {
  return plan.parallelism.context * plan.parallelism.data;
}

std::int64_t ShardRanks(const Plan& plan) {
  return plan.parallelism.context * plan.data_parallel.shard_group_size;
}

bool KeepsMasterWeights(const Training& training) {
  return SizeOf(training.parameter_dtype) < SizeOf(DataType::kFp32) &&
         training.master_weights != MasterWeights::kNone;
}

DataType UpdatedType(const Training& training) {
  return KeepsMasterWeights(training) ? DataType::kFp32 : training.parameter_dtype;
}

std::int64_t MasterBytesPerParameter(const Training& training) {
  const bool whole = training.master_weights == MasterWeights::kFp32;
  return KeepsMasterWeights(training) ? (whole ? 4 : 2) : 0;
}

std::int64_t OptimizerBytesPerParameter(const Training& training) {
  return MomentsOf(training.optimizer) * SizeOf(training.optimizer_state_dtype) +
         MasterBytesPerParameter(training);
}

std::int64_t LeastOptimizerBytesPerParameter(const Training& training) {
  const std::int64_t master = MasterBytesPerParameter(training);
  switch (training.optimizer) {
    case Optimizer::kAdamW8bit:
      return 2 + master;
    case Optimizer::kMuon:
      return SizeOf(training.optimizer_state_dtype) + master;
    case Optimizer::kAdafactor:
      return master;
    default:
      return OptimizerBytesPerParameter(training);
  }
}

bool HasStatesOfUpdatedType(const Training& training) {
  if (!HasEqualMoments(training.optimizer) || training.optimizer == Optimizer::kLion) return false;
  const bool remainders =
      KeepsMasterWeights(training) && training.master_weights == MasterWeights::kFp16Remainder;
  return !remainders && training.optimizer_state_dtype == UpdatedType(training);
}

OptimizerArrays OptimizerArraysOf(const Training& training) {
  const DataType type = HasStatesOfUpdatedType(training) ? UpdatedType(training) : DataType::kBf16;
  return {.count = OptimizerBytesPerParameter(training) / SizeOf(type), .type = type};
}

bool IsPrecisionAware(const Training& training) {
  return KeepsMasterWeights(training) &&
         (training.master_weights == MasterWeights::kFp16Remainder ||
          training.optimizer_state_dtype != DataType::kFp32);
}

Framework LayersOf(const Plan& plan) {
  const Framework framework = plan.data_parallel.framework;
  const bool divided = plan.parallelism.tensor > 1 || plan.parallelism.pipeline > 1;
  return divided ? StyleOf(framework).divided_layers.value_or(framework) : framework;
}

namespace {

// WorkOptions::transposes_attention. Megatron-LM passes its products views of tensors in another
// order.
bool TransposesAttention(const Plan& plan) {
  const Training& training = plan.training;
  if (training.attention == model::Attention::kFlash) return HasTransformerEngine(training);
  const FrameworkTraits& traits = TraitsOf(LayersOf(plan));
  return !traits.textbook && !traits.megatron_layers &&
         (training.attention == model::Attention::kMath ||
          training.attention == model::Attention::kMathFp32);
}

// Whether the layers are Megatron-LM's with its own linear layer (since October 2021). Before that,
// and in Megatron-DeepSpeed, the linear layer is PyTorch's.
bool HasMegatronsLinear(const Plan& plan) {
  return plan.training.async_tensor_model_parallel_allreduce &&
         !StyleOf(plan.data_parallel.framework).layers.torch_linear;
}

// WorkOptions::adds_attention_biases.
bool AddsAttentionBiases(const Plan& plan) {
  constexpr Version kFusesBiases{1, 12};
  const FrameworkTraits& traits = TraitsOf(LayersOf(plan));
  if (traits.textbook || HasTransformerEngine(plan.training)) return false;
  const bool megatrons =
      traits.megatron_layers && HasMegatronsLinear(plan) && !plan.training.compile;
  return megatrons || plan.software.torch < kFusesBiases;
}

// WorkOptions::main_gradients.
std::optional<DataType> MainGradientsOf(const Plan& plan) {
  const bool fused =
      StyleOf(plan.data_parallel.framework).gradients == GradientStore::kMainBuffers &&
      plan.data_parallel.gradient_accumulation_fusion;
  return fused ? std::optional(plan.training.gradient_dtype) : std::nullopt;
}

// WorkOptions::sums_norm_weights_apart. Megatron-LM's fused norms, which `compile` represents, sum
// in one kernel.
bool SumsNormWeightsApart(const Plan& plan) {
  constexpr Version kFusesBoth{2, 10};
  return plan.software.torch < kFusesBoth && !TraitsOf(LayersOf(plan)).megatron_layers;
}

// WorkOptions::donates_logits. The backward of one compiled graph may overwrite values that only
// its forward keeps: "donated buffers" (torch/_functorch/config.py, since 2.6; seen with 2.11).
// fsdp compiles blocks and the loss separately, and logits are an input of the loss.
bool DonatesLogits(const Plan& plan) {
  constexpr Version kDonates{2, 6};
  return plan.training.compile && StyleOf(plan.data_parallel.framework).compiles_whole_model &&
         plan.software.torch >= kDonates;
}

model::ContextParallel ContextOf(const Plan& plan) {
  const Parallelism& axes = plan.parallelism;
  return {.ranks = axes.context,
          .method = axes.context_method,
          .heads = axes.context_method == model::ContextMethod::kAllToAll ? axes.context
                                                                          : axes.context_inner,
          .of_pytorch = StyleOf(plan.data_parallel.framework).layers.torch_context};
}

double LoadOf(const Mixture& mixture) {
  if (!mixture.capacity_factor) return mixture.imbalance;
  return mixture.pad_to_capacity ? *mixture.capacity_factor
                                 : std::min(mixture.imbalance, *mixture.capacity_factor);
}

// Rate of Transformer Engine's attention with sinks up to NVIDIA's container 26.06, relative to
// cuDNN's (NVIDIA/TransformerEngine issue 2318). Fitted to GPT-OSS 120B in BF16 on 64 GB300 (4.22
// s, calibration/published/megatron-bridge-moe.yaml), of which cuDNN's cores would take 0.31 s.
constexpr double kSinksFallback = 0.18;

model::ExpertParallel ExpertsOf(const Plan& plan) {
  const Mixture& mixture = plan.mixture;
  return {.ranks = plan.parallelism.expert,
          .tensor = plan.parallelism.expert_tensor,
          .near = plan.parallelism.expert_near,
          .node_limit = mixture.node_limit,
          .dispatcher = mixture.dispatcher,
          .products = mixture.products,
          .implementation = mixture.implementation,
          .dispatches_fp8 = mixture.dispatch_dtype == DataType::kFp8,
          .fused_router = mixture.fused_router,
          .fused_permutation = mixture.fused_permutation,
          .fused_rows = mixture.fused_rows && mixture.dispatcher == model::Dispatcher::kHybridEp,
          .router_type = mixture.router_dtype,
          .load = LoadOf(mixture),
          .fixed_rows = mixture.pad_to_capacity,
          .min_capacity = mixture.min_capacity,
          .overlaps_passes = mixture.overlap_communication,
          .delays_weight_gradients = mixture.delay_weight_gradients,
          .shared_beside = mixture.overlap_shared_experts};
}

}  // namespace

model::WorkOptions WorkOptionsOf(const Plan& plan) {
  const Training& training = plan.training;
  const FrameworkTraits& traits = TraitsOf(plan.data_parallel.framework);
  const FrameworkStyle& style = StyleOf(plan.data_parallel.framework);
  return {.micro_batch_size = training.micro_batch_size,
          .sequence_length = training.sequence_length,
          .compute = training.precision,
          .checkpointing = training.activation_checkpointing,
          .recomputed_modules = training.recompute_modules,
          .checkpointed_blocks = training.checkpointed_blocks,
          .blocks_per_checkpoint = training.blocks_per_checkpoint,
          .attention = training.attention,
          .attention_rate = training.sinks_fallback ? kSinksFallback : 1,
          .recompute_stops_early = training.checkpoint_early_stop,
          .loss = training.loss,
          .loss_chunk = training.loss_chunk,
          .compiled = training.compile,
          .donates_logits = DonatesLogits(plan),
          .sums_norm_weights_apart = SumsNormWeightsApart(plan),
          .norm = training.norm,
          .rotary = training.rotary,
          .activation_function = training.activation_function,
          .repeat_kv = training.repeat_kv,
          .transposes_attention = TransposesAttention(plan),
          .adds_attention_biases = AddsAttentionBiases(plan),
          .masked_tokens = training.masked_tokens,
          .documents = training.documents(),
          .autocast = training.autocast,
          .casts_weights = !traits.megatron_layers,
          .tensor = plan.parallelism.tensor,
          .vocabulary_multiple = traits.megatron_layers ? training.make_vocab_size_divisible_by : 1,
          .sequence_parallel = plan.parallelism.sequence_parallel,
          .context = ContextOf(plan),
          .experts = ExpertsOf(plan),
          .regathers = traits.gathers_again,
          .divides_sequences = style.layers.divides_sequences,
          .sums_beside_weights = HasMegatronsLinear(plan),
          .begins_in_issue_order =
              style.connections == 0 || plan.software.cuda_device_max_connections == 1,
          .tensor_overlap = training.tensor_overlap,
          .fp8_scaling = training.fp8_scaling,
          .main_gradients = MainGradientsOf(plan),
          .fuses_products = traits.fuses_products,
          .fuses_dropout_add = TraitsOf(LayersOf(plan)).megatron_layers,
          .adds_up_parts = plan.parallelism.sequence_parallel && !traits.gathers_again,
          .splits_backward = plan.parallelism.splits_backward};
}

DataType WrittenGradientType(const Training& training) {
  return SizeOf(training.gradient_dtype) < SizeOf(training.parameter_dtype)
             ? training.gradient_dtype
             : training.parameter_dtype;
}

bool AccumulatesApart(const Training& training) {
  return SizeOf(training.gradient_dtype) > SizeOf(WrittenGradientType(training));
}

}  // namespace stepcast::plan
