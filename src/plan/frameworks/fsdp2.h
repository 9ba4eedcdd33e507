#pragma once

#include "src/plan/framework_style.h"

namespace stepcast::plan {

// torch.distributed.fsdp.fully_shard, and around it torchtitan. PyTorch 2.4 is the first release
// that lists fully_shard per parameter (as a prototype).
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
    // Routers as torchtitan/models/common/moe has them.
    .layers = {.divides_sequences = true,
               .fp8_scaling = model::Fp8Scaling::kTorchao,
               .tensor_overlap = model::TensorOverlap::kAsync,
               .context_method = model::ContextMethod::kAllGather,
               .torch_context = true,
               .fp32_router = true,
               .experts = model::ExpertImplementation::kTorchtitan}};

const FrameworkPolicy& Fsdp2Policy();  // fsdp2.cc

}  // namespace stepcast::plan
