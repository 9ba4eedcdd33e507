#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// The style of torch.nn.parallel.DistributedDataParallel.
inline constexpr FrameworkStyle kDdpStyle{
    .lamb = true,
    .adamw_8bit = true,
    .lion_and_adafactor = true,
    .muon = MuonKernels::kTorch,
    .loss_scaler = LossScaler::kGradScaler,
    .autocast = true,
    .compiles_whole_model = true,
    .layers = {.experts = model::ExpertImplementation::kTransformers}};

const FrameworkPolicy& DdpPolicy();  // ddp.cc

// The style of DeepSpeed. The model's code provides the divided layers, as in Megatron-DeepSpeed.
inline constexpr FrameworkStyle kDeepSpeedStyle{
    .engine = PipelineEngine::kDeepSpeed,
    .fp32_states =
        "deepspeed keeps FP32 master weights and moments (bf16_master_weights_and_grads and "
        "bf16_optimizer_states are not modelled)",
    .adamw_8bit = true,
    .flattens = true,
    .host_optimizer = HostOptimizer::kDeepSpeed,
    .gradients = GradientStore::kPartitions,
    .clips_in_fp32 = true,
    .layers = {.torch_linear = true,
               .experts = model::ExpertImplementation::kTransformers,
               .shared_out_experts = model::ExpertImplementation::kDeepSpeed},
    .divided_layers = Framework::kMegatron};

const FrameworkPolicy& DeepSpeedPolicy();  // deepspeed.cc

// The style of torch.distributed.fsdp.FullyShardedDataParallel, which was a prototype before
// PyTorch 1.12. The model's code provides the divided layers, as in Hetu-Galvatron.
inline constexpr FrameworkStyle kFsdp1Style{
    .first_torch = {1, 12},
    .adamw_8bit = true,
    .lion_and_adafactor = true,
    .flattens = true,
    .loss_scaler = LossScaler::kGradScaler,
    .gradients = GradientStore::kUnitsAsWritten,
    .shards_frozen = true,
    .layers = {.experts = model::ExpertImplementation::kTransformers}};

const FrameworkPolicy& Fsdp1Policy();  // fsdp1.cc

// The style of torch.distributed.fsdp.fully_shard as torchtitan uses it. PyTorch 2.4 is the first
// release with per-parameter fully_shard (as a prototype).
inline constexpr FrameworkStyle kFsdp2Style{
    .first_torch = {2, 4},
    .engine = PipelineEngine::kTorch,
    .stage_split = StageSplit::kWithEnds,
    .adamw_8bit = true,
    .muon = MuonKernels::kDion,
    .optimizer_in_backward = true,
    .distributed_tensors = true,
    .loss_scaler = LossScaler::kGradScaler,
    .gradients = GradientStore::kUnitsAsReduced,
    .divides_mixtures = true,
    .shards_frozen = true,
    // Routers follow torchtitan (torchtitan/models/common/moe).
    .layers = {.divides_sequences = true,
               .fp8_scaling = model::Fp8Scaling::kTorchao,
               .tensor_overlap = model::TensorOverlap::kAsync,
               .context_method = model::ContextMethod::kAllGather,
               .torch_context = true,
               .fp32_router = true,
               .experts = model::ExpertImplementation::kTorchtitan}};

const FrameworkPolicy& Fsdp2Policy();  // fsdp2.cc

// The style of Megatron-LM and Megatron-Core.
inline constexpr FrameworkStyle kMegatronStyle{
    .precision_aware_optimizer = true,
    .muon = MuonKernels::kMegatron,
    .loss_scaler = LossScaler::kMegatron,
    .host_optimizer = HostOptimizer::kMegatron,
    .gradients = GradientStore::kMainBuffers,
    .divides_mixtures = true,
    .divides_adapters = true,
    // Megatron-LM sets 1 connection (megatron/training/arguments.py, validate_args).
    .connections = 1,
    // Norms are Apex's, if installed (megatron/core/fusions/fused_layer_norm.py). Rotary positions
    // are fused unless --no-rope-fusion is set. Ranks that share a head gather its columns
    // (NVIDIA/Megatron-LM, pull request 2565). Routers and permutations are fused, as NVIDIA
    // recommends (megatron/core/transformer/moe/README.md). Grouped GEMMs run on several streams.
    .layers = {.transformer_engine_attention = true,
               .shares_heads = true,
               .norm = model::Implementation::kApex,
               .rotary = model::Implementation::kApex,
               .tensor_overlap = model::TensorOverlap::kUserBuffers,
               .divides_experts = true,
               .expert_products = model::ExpertProducts::kStreams,
               .fused_router = true,
               .fused_permutation = true}};

const FrameworkPolicy& MegatronPolicy();  // megatron.cc

// The style of Hugging Face's nanotron.
inline constexpr FrameworkStyle kNanotronStyle{
    .stage_split = StageSplit::kByWeights,
    .fp32_states = "nanotron's gradient accumulator keeps FP32 master weights and FP32 moments",
    .gradients = GradientStore::kAccumulators,
    .layers = {.experts = model::ExpertImplementation::kTransformers}};

const FrameworkPolicy& NanotronPolicy();  // nanotron.cc

// The algorithms as described in papers, without costs of an implementation.
inline constexpr FrameworkStyle kReferenceStyle{.lamb = true,
                                                .divides_adapters = true,
                                                .layers = {.norm = model::Implementation::kFused,
                                                           .rotary = model::Implementation::kFused,
                                                           .fused_router = true,
                                                           .fused_permutation = true}};

const FrameworkPolicy& ReferencePolicy();  // reference.cc

}  // namespace stepcast::plan
