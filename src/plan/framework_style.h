#pragma once

#include <cstdint>
#include <optional>

#include "src/base/version.h"
#include "src/model/context_parallel.h"
#include "src/model/expert_parallel.h"
#include "src/model/recomputation.h"
#include "src/plan/framework.h"

// How a framework does what frameworks do in different ways: values that the rest of the code reads
// in the place of the framework's name. Those of each framework are in src/plan/frameworks, in a
// header of its name; what it decides by a plan's other settings is beside it (framework_policy.h).
// Its name, stages and axes are in framework.h.
namespace stepcast::plan {

// Who runs a pipeline's passes and messages (lowering/stage_messages.h).
enum class PipelineEngine : std::uint8_t {
  kBatches,    // batches of sends and receives between passes, or beside them
  kTorch,      // torch.distributed.pipelining: actions, with sends beside and no waiting host
  kDeepSpeed,  // deepspeed/runtime/pipe: one message at a time, each rank's part of it gathered
};

// How a pipeline's stages get their layers, where parallelism.stage_layers does not say.
enum class StageSplit : std::uint8_t {
  kEqual,      // as many blocks each
  kByWeights,  // each takes blocks until it has its part of the weights (nanotron)
  kWithEnds,   // embedding and head count as blocks, parts differ by one (torchtitan)
};

// Whose Muon updates matrices (lowering/update.h).
enum class MuonKernels : std::uint8_t {
  kNone,
  kTorch,     // torch.optim.Muon
  kMegatron,  // Megatron-LM's --optimizer muon, of the emerging_optimizers package
  kDion,      // the package dion's, which puts sharded matrices together by all-to-alls
};

// Where gradients are between backward and the update.
enum class GradientStore : std::uint8_t {
  kTensors,         // autograd's tensors, to which later micro-batches add
  kMainBuffers,     // buffers in training.gradient_dtype, there from the start
  kUnitsAsWritten,  // whole gradients of a unit have the type that backward writes
  kUnitsAsReduced,  // whole gradients of a unit have the type that they are reduced in
  kPartitions,      // parts of them from stage 1 on
  kAccumulators,    // FP32 accumulators beside the parameters' gradients
};

// Who scales the loss of training in FP16 (lowering/gradient_clipping.h).
enum class LossScaler : std::uint8_t {
  kNone,
  kGradScaler,  // torch.amp.GradScaler: of FP32 parameters under autocast
  kMegatron,    // megatron/core/optimizer/grad_scaler.py: the host reads what was found
};

// Which code updates parameters whose optimizer is on the host (lowering/host_offload.h).
enum class HostOptimizer : std::uint8_t {
  kTorch,     // torch.optim's, on CPU tensors
  kMegatron,  // the same, of which AdamW alone is fused
  kDeepSpeed  // deepspeed.ops.adam.DeepSpeedCPUAdam
};

// How the framework's recipes write layers, where the plan's settings do not say it.
struct LayerStyle {
  // Linear layers are torch.nn.Linear, though the layers are Megatron-LM's.
  bool torch_linear = false;
  // Transformer Engine chooses the attention kernel: cuDNN's on Blackwell.
  bool transformer_engine_attention = false;
  // Sequences are divided into parts by PyTorch's tensor parallelism, which shares out the tokens
  // of each sequence and not those of a micro-batch.
  bool divides_sequences = false;
  // Tensor-parallel ranks that are more than the key-value heads share them.
  bool shares_heads = false;
  // Norms and rotary positions that neither the plan nor `compile` says: kEager stands for
  // PyTorch's own, whose norm is one kernel since 2.9.
  model::Implementation norm = model::Implementation::kEager;
  model::Implementation rotary = model::Implementation::kEager;
  model::Fp8Scaling fp8_scaling = model::Fp8Scaling::kDelayed;
  // The overlap with tensor parallelism's collectives that it has beside none; kNone: it has no
  // such setting.
  model::TensorOverlap tensor_overlap = model::TensorOverlap::kNone;
  model::ContextMethod context_method = model::ContextMethod::kRing;
  // Context parallelism is torch.distributed.tensor.experimental's: a ring, or gathered keys and
  // values.
  bool torch_context = false;
  // Of mixtures: experts are divided among tensor-parallel ranks unless expert_tensor says
  // otherwise; products of experts; router and permutation are one kernel each; the router computes
  // in FP32.
  bool divides_experts = false;
  model::ExpertProducts expert_products = model::ExpertProducts::kGrouped;
  bool fused_router = false, fused_permutation = false, fp32_router = false;
  // Whose a mixture's layer is, unless experts.implementation says otherwise; and where ranks share
  // experts out: none: the same.
  model::ExpertImplementation experts = model::ExpertImplementation::kMegatron;
  std::optional<model::ExpertImplementation> shared_out_experts{};
};

struct FrameworkStyle {
  Version first_torch{};  // the first release of PyTorch that has it
  PipelineEngine engine = PipelineEngine::kBatches;
  StageSplit stage_split = StageSplit::kEqual;
  // Has an optimizer that takes states of 16 bits and remainders of master weights.
  bool precision_aware_optimizer = false;
  // Why master weights and moments are FP32 there; null: they need not be.
  const char* fp32_states = nullptr;
  bool lamb = false;  // trains with LAMB
  // Trains with optimizers of other libraries: AdamW of 8 bits; Lion and Adafactor.
  bool adamw_8bit = false, lion_and_adafactor = false;
  MuonKernels muon = MuonKernels::kNone;
  // Each parameter can be updated and its gradient freed as soon as the gradient is reduced.
  bool optimizer_in_backward = false;
  // What its optimizer has of a parameter is a vector: a flat parameter or part of one, or of a
  // flat partition (FSDP1, DeepSpeed's ZeRO).
  bool flattens = false;
  // Parameters are DTensors, which kernels of other libraries cannot read (fully_shard).
  bool distributed_tensors = false;
  LossScaler loss_scaler = LossScaler::kNone;
  HostOptimizer host_optimizer = HostOptimizer::kTorch;
  GradientStore gradients = GradientStore::kTensors;
  // Gradients have been cast to FP32 when they are clipped.
  bool clips_in_fp32 = false;
  // Casts weights of FP32 to the type of the computation wherever they are used (torch.autocast).
  bool autocast = false;
  // `compile` makes one graph of the model, and not one of each block.
  bool compiles_whole_model = false;
  // Layers of mixtures are divided among ranks, too.
  bool divides_mixtures = false;
  // Adapters beside layers that ranks divide; frozen parameters that ranks share out at stage 3.
  bool divides_adapters = false;
  bool shards_frozen = false;
  // CUDA_DEVICE_MAX_CONNECTIONS as its recipes set it, on which the order of its kernels depends;
  // 0: they leave it alone.
  std::int64_t connections = 0;

  LayerStyle layers{};
  // Whose layers a model has that is divided among ranks by tensor parallelism or into stages;
  // none: its own.
  std::optional<Framework> divided_layers{};
};

const FrameworkStyle& StyleOf(Framework framework);

class FrameworkPolicy;  // framework_policy.h

}  // namespace stepcast::plan
