#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// Megatron-LM and Megatron-Core.
inline constexpr FrameworkStyle kMegatronStyle{
    .precision_aware_optimizer = true,
    .muon = MuonKernels::kMegatron,
    .loss_scaler = LossScaler::kMegatron,
    .host_optimizer = HostOptimizer::kMegatron,
    .gradients = GradientStore::kMainBuffers,
    .divides_mixtures = true,
    .divides_adapters = true,
    // megatron/training/arguments.py, validate_args.
    .connections = 1,
    // megatron/core/fusions/fused_layer_norm.py: Apex, where it is installed; --no-rope-fusion
    // turns fused positions off. Ranks that share a head gather what they have made of it
    // (NVIDIA/Megatron-LM, pull request 2565). NVIDIA's guide to mixtures
    // (megatron/core/transformer/moe/README.md) asks for fused routers and permutations; grouped
    // products run on streams beside each other.
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

}  // namespace stepcast::plan
