#pragma once

#include <cstdint>
#include <optional>

#include "src/base/version.h"
#include "src/model/context_parallel.h"
#include "src/model/expert_parallel.h"
#include "src/model/recomputation.h"
#include "src/plan/framework.h"

// Constants by which frameworks differ. Other code reads these values instead of comparing
// frameworks. The values are in src/plan/frameworks/frameworks.h, rules that depend on a plan in
// framework_policy.h, and names, stages and axes in framework.h.
namespace stepcast::plan {

// How a pipeline's passes and messages are executed (lowering/stage_messages.h).
enum class PipelineEngine : std::uint8_t {
  kBatches,    // sends and receives run in batches, between passes or overlapped with passes
  kTorch,      // torch.distributed.pipelining: sends overlap passes, and the host does not wait
  kDeepSpeed,  // deepspeed/runtime/pipe: one message at a time; divided messages are gathered
};

// How layers are divided into pipeline stages if the scenario does not set
// parallelism.stage_layers.
enum class StageSplit : std::uint8_t {
  kEqual,      // equal numbers of blocks
  kByWeights,  // each stage has about the same number of weights (nanotron)
  kWithEnds,   // like kEqual, but embedding and head are counted as blocks (torchtitan)
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
  kTensors,         // autograd's tensors, in which micro-batches accumulate
  kMainBuffers,     // permanent buffers of type training.gradient_dtype
  kUnitsAsWritten,  // full gradients of a unit, in the type that backward writes
  kUnitsAsReduced,  // full gradients of a unit, in the type that collectives reduce
  kPartitions,      // partitioned at ZeRO stages 1 to 3
  kAccumulators,    // FP32 accumulators in addition to the parameters' gradients
};

// The loss scaler of FP16 training (lowering/gradient_clipping.h).
enum class LossScaler : std::uint8_t {
  kNone,
  kGradScaler,  // torch.amp.GradScaler: for FP32 parameters under autocast
  kMegatron,    // megatron/core/optimizer/grad_scaler.py: the host reads the overflow flag
};

// The code that updates parameters on the host (lowering/host_offload.h).
enum class HostOptimizer : std::uint8_t {
  kTorch,     // torch.optim's optimizers on CPU tensors
  kMegatron,  // like kTorch, but only AdamW is fused
  kDeepSpeed  // deepspeed.ops.adam.DeepSpeedCPUAdam
};

// How the framework's recipes implement layers by default.
struct LayerStyle {
  // Whether linear layers are torch.nn.Linear, and all other layers are Megatron-LM's.
  bool torch_linear = false;
  // Whether Transformer Engine chooses the attention kernel: cuDNN's on Blackwell.
  bool transformer_engine_attention = false;
  // Whether sequence parallelism is PyTorch's, which divides the tokens of each sequence. If false,
  // the tokens of the micro-batch are divided.
  bool divides_sequences = false;
  // Whether several ranks can share a key-value head if there are more tensor-parallel ranks than
  // key-value heads.
  bool shares_heads = false;
  // The default implementations of norms and of rotary positions without `compile`. kEager is
  // PyTorch's own implementation, in which a norm is one kernel since 2.9.
  model::Implementation norm = model::Implementation::kEager;
  model::Implementation rotary = model::Implementation::kEager;
  model::Fp8Scaling fp8_scaling = model::Fp8Scaling::kDelayed;
  // How the framework can overlap GEMMs with tensor-parallel collectives. kNone: not supported.
  model::TensorOverlap tensor_overlap = model::TensorOverlap::kNone;
  model::ContextMethod context_method = model::ContextMethod::kRing;
  // Whether context parallelism is implemented by torch.distributed.tensor.experimental: a ring, or
  // gathered keys and values.
  bool torch_context = false;
  // Defaults for mixtures. `divides_experts`: tensor-parallel ranks divide experts if expert_tensor
  // is not set. `expert_products`: how the GEMMs of experts run. `fused_router`,
  // `fused_permutation`: one kernel each. `fp32_router`: the router computes in FP32.
  bool divides_experts = false;
  model::ExpertProducts expert_products = model::ExpertProducts::kGrouped;
  bool fused_router = false, fused_permutation = false, fp32_router = false;
  // The default of experts.implementation. If the experts are divided among ranks and
  // `shared_out_experts` is set, `shared_out_experts` is the default instead.
  model::ExpertImplementation experts = model::ExpertImplementation::kMegatron;
  std::optional<model::ExpertImplementation> shared_out_experts{};
};

struct FrameworkStyle {
  Version first_torch{};  // the first PyTorch release that has the framework
  PipelineEngine engine = PipelineEngine::kBatches;
  StageSplit stage_split = StageSplit::kEqual;
  // Whether the framework has an optimizer with 16-bit states, which stores master weights as
  // remainders.
  bool precision_aware_optimizer = false;
  // The reason why master weights and moments must be FP32. Null if other types are allowed.
  const char* fp32_states = nullptr;
  bool lamb = false;  // supports LAMB
  // Whether the framework supports optimizers of other libraries: 8-bit AdamW (`adamw_8bit`), Lion
  // and Adafactor (`lion_and_adafactor`).
  bool adamw_8bit = false, lion_and_adafactor = false;
  MuonKernels muon = MuonKernels::kNone;
  // Whether the framework can update each parameter, and free its gradient, as soon as the gradient
  // is reduced.
  bool optimizer_in_backward = false;
  // Whether the optimizer's tensors are vectors without the parameters' shapes: parts of a flat
  // parameter (FSDP1) or of a flat partition (DeepSpeed's ZeRO).
  bool flattens = false;
  // Whether parameters are DTensors (fully_shard), which kernels of other libraries cannot read.
  bool distributed_tensors = false;
  LossScaler loss_scaler = LossScaler::kNone;
  HostOptimizer host_optimizer = HostOptimizer::kTorch;
  GradientStore gradients = GradientStore::kTensors;
  // Whether gradients are cast to FP32 before they are clipped.
  bool clips_in_fp32 = false;
  // Whether the framework casts FP32 weights to the compute type at each use (torch.autocast).
  bool autocast = false;
  // Whether `compile` compiles the model as one graph instead of one graph per block.
  bool compiles_whole_model = false;
  // Whether tensor parallelism also divides the layers of mixtures.
  bool divides_mixtures = false;
  // `divides_adapters`: the framework supports adapters of divided layers. `shards_frozen`: the
  // framework shards frozen parameters at stage 3.
  bool divides_adapters = false;
  bool shards_frozen = false;
  // CUDA_DEVICE_MAX_CONNECTIONS in the framework's recipes, which affects the order of kernels. 0:
  // not set.
  std::int64_t connections = 0;

  LayerStyle layers{};
  // The framework whose layers are used if tensor or pipeline parallelism divides the model. Not
  // set: the framework's own layers.
  std::optional<Framework> divided_layers{};
};

const FrameworkStyle& StyleOf(Framework framework);

class FrameworkPolicy;  // framework_policy.h

}  // namespace stepcast::plan
