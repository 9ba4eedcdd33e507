#pragma once

#include <cstdint>
#include <optional>

#include "src/base/version.h"
#include "src/model/context_parallel.h"
#include "src/model/expert_parallel.h"
#include "src/model/recomputation.h"
#include "src/plan/framework.h"

// Values for behavior that differs among frameworks. Other code reads these values instead of the
// framework's name. Each framework's values are in src/plan/frameworks/frameworks.h. Decisions that
// depend on a plan are in framework_policy.h; name, stages and axes are in framework.h.
namespace stepcast::plan {

// How a pipeline's passes and messages are executed (lowering/stage_messages.h).
enum class PipelineEngine : std::uint8_t {
  kBatches,    // batches of sends and receives between passes, or overlapped with them
  kTorch,      // torch.distributed.pipelining: actions, with overlapped sends and no host waits
  kDeepSpeed,  // deepspeed/runtime/pipe: one message at a time; divided messages are gathered
};

// How layers are divided into pipeline stages if parallelism.stage_layers is not given.
enum class StageSplit : std::uint8_t {
  kEqual,      // equal numbers of blocks
  kByWeights,  // each takes blocks until it has its part of the weights (nanotron)
  kWithEnds,   // embedding and head count as blocks, and parts differ by at most one (torchtitan)
};

// The implementation of Muon that updates matrices (lowering/update.h).
enum class MuonKernels : std::uint8_t {
  kNone,
  kTorch,     // torch.optim.Muon
  kMegatron,  // Megatron-LM's --optimizer muon, from the emerging_optimizers package
  kDion,      // the package dion, which assembles sharded matrices by all-to-alls
};

// How gradients are stored between backward and the update.
enum class GradientStore : std::uint8_t {
  kTensors,         // autograd's tensors, to which later micro-batches add
  kMainBuffers,     // permanent buffers in training.gradient_dtype
  kUnitsAsWritten,  // whole gradients of a unit, in the type that backward writes
  kUnitsAsReduced,  // whole gradients of a unit, in the type that is reduced
  kPartitions,      // partitioned from stage 1 on
  kAccumulators,    // FP32 accumulators in addition to the parameters' gradients
};

// The loss scaler of FP16 training (lowering/gradient_clipping.h).
enum class LossScaler : std::uint8_t {
  kNone,
  kGradScaler,  // torch.amp.GradScaler: for FP32 parameters under autocast
  kMegatron,    // megatron/core/optimizer/grad_scaler.py: the host reads the overflow flag
};

// The code that updates parameters whose optimizer is on the host (lowering/host_offload.h).
enum class HostOptimizer : std::uint8_t {
  kTorch,     // torch.optim's optimizers on CPU tensors
  kMegatron,  // the same, with only AdamW fused
  kDeepSpeed  // deepspeed.ops.adam.DeepSpeedCPUAdam
};

// How the framework's recipes implement layers, unless the plan's settings say otherwise.
struct LayerStyle {
  // Linear layers are torch.nn.Linear, although all other layers are Megatron-LM's.
  bool torch_linear = false;
  // Transformer Engine chooses the attention kernel; on Blackwell it chooses cuDNN's.
  bool transformer_engine_attention = false;
  // Sequence parallelism is PyTorch's, which divides the tokens of each sequence instead of the
  // tokens of a micro-batch.
  bool divides_sequences = false;
  // If there are more tensor-parallel ranks than key-value heads, several ranks share a head.
  bool shares_heads = false;
  // The default implementation of norms and rotary positions without `compile`. kEager is PyTorch's
  // own implementation, whose norm is one kernel since 2.9.
  model::Implementation norm = model::Implementation::kEager;
  model::Implementation rotary = model::Implementation::kEager;
  model::Fp8Scaling fp8_scaling = model::Fp8Scaling::kDelayed;
  // The supported overlap with tensor-parallel collectives. kNone means that there is no such
  // setting.
  model::TensorOverlap tensor_overlap = model::TensorOverlap::kNone;
  model::ContextMethod context_method = model::ContextMethod::kRing;
  // Context parallelism follows torch.distributed.tensor.experimental: a ring, or gathered keys and
  // values.
  bool torch_context = false;
  // Defaults for mixtures: whether tensor-parallel ranks divide experts if expert_tensor is not
  // given; the products of experts; whether router and permutation are one kernel each; whether the
  // router computes in FP32.
  bool divides_experts = false;
  model::ExpertProducts expert_products = model::ExpertProducts::kGrouped;
  bool fused_router = false, fused_permutation = false, fp32_router = false;
  // The default of experts.implementation, and the default if ranks divide the experts. If the
  // latter is none, the same default applies.
  model::ExpertImplementation experts = model::ExpertImplementation::kMegatron;
  std::optional<model::ExpertImplementation> shared_out_experts{};
};

struct FrameworkStyle {
  Version first_torch{};  // the first PyTorch release that has the framework
  PipelineEngine engine = PipelineEngine::kBatches;
  StageSplit stage_split = StageSplit::kEqual;
  // The framework has an optimizer that supports 16-bit states and stores master weights as
  // remainders.
  bool precision_aware_optimizer = false;
  // The reason why master weights and moments must be FP32; null if other types are allowed.
  const char* fp32_states = nullptr;
  bool lamb = false;  // supports LAMB
  // Whether the framework supports optimizers of other libraries: 8-bit AdamW; Lion and Adafactor.
  bool adamw_8bit = false, lion_and_adafactor = false;
  MuonKernels muon = MuonKernels::kNone;
  // The framework can update each parameter, and free its gradient, as soon as the gradient is
  // reduced.
  bool optimizer_in_backward = false;
  // The framework's optimizer sees parameters as vectors: a flat parameter or part of one, or part
  // of a flat partition (FSDP1, DeepSpeed's ZeRO).
  bool flattens = false;
  // Parameters are DTensors (fully_shard), which kernels of other libraries cannot read.
  bool distributed_tensors = false;
  LossScaler loss_scaler = LossScaler::kNone;
  HostOptimizer host_optimizer = HostOptimizer::kTorch;
  GradientStore gradients = GradientStore::kTensors;
  // Gradients are already FP32 when they are clipped.
  bool clips_in_fp32 = false;
  // The framework casts FP32 weights to the compute type at each use (torch.autocast).
  bool autocast = false;
  // `compile` makes one graph of the whole model instead of one graph per block.
  bool compiles_whole_model = false;
  // Tensor parallelism also divides the layers of mixtures.
  bool divides_mixtures = false;
  // Whether the framework supports adapters of divided layers, and sharding of frozen parameters at
  // stage 3.
  bool divides_adapters = false;
  bool shards_frozen = false;
  // The value of CUDA_DEVICE_MAX_CONNECTIONS in the framework's recipes, which affects the order of
  // kernels. 0: the recipes do not set it.
  std::int64_t connections = 0;

  LayerStyle layers{};
  // The framework whose layers a model uses if tensor parallelism divides the model or a pipeline
  // splits it into stages. None: the framework's own.
  std::optional<Framework> divided_layers{};
};

const FrameworkStyle& StyleOf(Framework framework);

class FrameworkPolicy;  // framework_policy.h

}  // namespace stepcast::plan
