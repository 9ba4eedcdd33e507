#include "src/lowering/host_offload.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/lowering/data_loading_and_saving.h"
#include "src/lowering/deepspeed_parts.h"
#include "src/model/model.h"
#include "src/plan/framework_style.h"

namespace stepcast::lowering {
namespace {

using plan::OffloadDevice;
using program::kNone;

// Fraction of host memory bandwidth that DeepSpeed's vectorized CPU Adam achieves. Ren et al. 2021
// (ZeRO-Offload, arXiv 2101.06840, table 4): 1e10 parameters in 2.57 s on a DGX-2, whose two Xeon
// 8168 have twelve channels of DDR4-2666, 256 GB/s. The update moves 28 bytes a parameter: 109
// GB/s. The other sizes of the table, 1e9 to 8e9, give 93 to 127 GB/s, 0.36 to 0.50.
constexpr double kHostEfficiency = 0.43;

// Bytes that the update of one element moves.
//
// DeepSpeed: FP32 values and moments are read and written. The gradient is unscaled first (read,
// written) and then read. Finally the 16-bit copy is written from the values, which are read once
// more.
//
// PyTorch's optimizers on the CPU work on FP32 master weights or directly on the parameters, with
// moments of the same type (torch/optim/adam.py, sgd.py). Fused: one pass over value, moments (read
// and written) and gradient (read). Otherwise one pass per operation, regardless of `foreach`,
// which is for GPUs. Operands of AdamW: decay of the value 2, first moment 3 (lerp_), scaling of
// the second 2, squared gradient 3 (addcmul_), root 2, quotient 2, epsilon 2, update of the value 4
// (addcdiv_); in all 20. SGD with momentum scales it (2), adds the gradient (3) and updates the
// value (3). Master weights are cast at the end.
//
// Megatron-LM's HybridDeviceOptimizer runs these, AdamW fused
// (megatron/core/optimizer/__init__.py).
std::int64_t UpdateBytes(const plan::Plan& plan) {
  const plan::Training& training = plan.training;
  const bool adam = training.optimizer == plan::Optimizer::kAdamW;
  const std::int64_t moments = plan::MomentsOf(training.optimizer);
  const std::int64_t kept = SizeOf(training.parameter_dtype);
  const plan::HostOptimizer optimizer = plan::StyleOf(plan.data_parallel.framework).host_optimizer;
  const bool deepspeed = optimizer == plan::HostOptimizer::kDeepSpeed;
  const std::int64_t size =
      deepspeed ? SizeOf(DataType::kFp32) : SizeOf(plan::UpdatedType(training));
  const std::int64_t cast = plan::KeepsMasterWeights(training) ? size + kept : 0;
  if (deepspeed) {
    return 2 * size * (1 + moments) + 3 * size + size + kept;
  }
  const bool fused = (adam || optimizer != plan::HostOptimizer::kMegatron) &&
                     training.optimizer_implementation == plan::OptimizerImplementation::kFused;
  if (fused) {
    return 2 * size * (1 + moments) + size + cast;
  }
  return (adam ? 20 : 8) * size + cast;
}

// FP32 values and moments, for DeepSpeed and Megatron-LM, whatever the parameters' type.
std::int64_t StateBytes(const plan::Training& training) {
  return 4 * (1 + plan::MomentsOf(training.optimizer));
}

// The ranks of a node, which share its memory and its drives.
std::int64_t RanksOfNode(const scenario::Scenario& scenario) {
  return std::min<std::int64_t>(scenario.cluster->gpus_per_node(),
                                plan::GradientRanks(scenario.plan));
}

}  // namespace

StatePlaces StatePlacesOf(const plan::DataParallel& data_parallel) {
  if (data_parallel.cpu_offload) return {OffloadDevice::kCpu, OffloadDevice::kCpu};
  if (data_parallel.optimizer_cpu_offload) return {OffloadDevice::kCpu, OffloadDevice::kNone};
  return {data_parallel.deepspeed.offload_optimizer, data_parallel.deepspeed.offload_param};
}

HostOffload::HostOffload(TrainingStep& step)
    : step_(step),
      builder_(step.builder()),
      places_(StatePlacesOf(step.plan().data_parallel)),
      ranks_of_node_(RanksOfNode(step.scenario())) {
  const topology::Cluster& cluster = *step.scenario().cluster;
  if (cluster.node_type() != nullptr && cluster.node_type()->host) {
    host_ = *cluster.node_type()->host;
  }
}

bool HostOffload::optimizer() const { return places_.optimizer != OffloadDevice::kNone; }
bool HostOffload::parameters() const { return places_.parameters != OffloadDevice::kNone; }

void HostOffload::WritePrologue() {
  if (!optimizer() && !parameters()) return;
  updated_ = builder_.AddEvent("updated by the host");
  if (places_.optimizer != OffloadDevice::kNvme && places_.parameters != OffloadDevice::kNvme) {
    return;
  }
  drive_ = builder_.AddStream("nvme");
  reached_ = builder_.AddEvent("reached the host");
  read_ = builder_.AddEvent("read from nvme");
}

Time HostOffload::AtRate(Bytes bytes, Bandwidth of_node) const {
  if (bytes == Bytes() || of_node == Bandwidth()) return Time();
  // Rounded up: rounding never makes anything faster than its bound.
  __extension__ using Wide = __int128;
  const Wide work = static_cast<Wide>(ranks_of_node_) * bytes.count() * 1'000'000'000'000;
  const Wide rate = of_node.bytes_per_second();
  return Picoseconds(static_cast<std::int64_t>((work + rate - 1) / rate));
}

void HostOffload::RunOnDrive(StreamId before, const char* name, Time time) {
  builder_.WaitForStream(drive_, before, reached_);
  builder_.Run(drive_, builder_.AddHostKernel(name, time), {});
}

void HostOffload::Update(std::int64_t elements) {
  const plan::Training& training = step_.plan().training;
  const StreamId compute = step_.compute();
  const bool drives = places_.optimizer == OffloadDevice::kNvme;
  const Bytes states(elements * StateBytes(training));
  if (drives) {
    // States and gradients.
    builder_.Run(compute,
                 builder_.AddHostKernel("nvme_read_states",
                                        AtRate(states + Bytes(elements * 4), host_.nvme_read)),
                 {});
  }
  builder_.Run(compute, builder_.AddHostKernel("cpu_adam", UpdateTime(elements)), {});
  if (drives) {
    builder_.Run(compute,
                 builder_.AddHostKernel("nvme_write_states", AtRate(states, host_.nvme_write)), {});
  }
  builder_.Record(compute, updated_);
  builder_.HostWait(updated_);
}

Time HostOffload::UpdateTime(std::int64_t elements) const {
  return AtRate(Bytes(elements * UpdateBytes(step_.plan())), Achieved());
}

void HostOffload::UpdateOnHost(std::int64_t elements) {
  builder_.RunOnHost("cpu_adam", UpdateTime(elements));
}

Bandwidth HostOffload::Achieved() const {
  return Bandwidth::BytesPerSecond(static_cast<std::int64_t>(
      kHostEfficiency * static_cast<double>(host_.memory_bandwidth.bytes_per_second())));
}

void HostOffload::AccumulateOnHost(StreamId stream, std::int64_t elements) {
  const Bytes moved = BytesOf(3 * elements, step_.plan().training.parameter_dtype);
  builder_.Run(stream, builder_.AddHostKernel("cpu_accumulate", AtRate(moved, Achieved())), {});
  builder_.Record(stream, updated_);
  builder_.HostWait(updated_);
}

void HostOffload::GradientsOnward(StreamId stream, std::int64_t elements) {
  if (places_.optimizer != OffloadDevice::kNvme) return;
  RunOnDrive(stream, "nvme_write_gradients", AtRate(Bytes(elements * 4), host_.nvme_write));
}

void HostOffload::ParametersInto(StreamId stream, Bytes bytes) {
  if (places_.parameters != OffloadDevice::kNvme) return;
  builder_.Run(drive_,
               builder_.AddHostKernel("nvme_read_parameters", AtRate(bytes, host_.nvme_read)), {});
  builder_.Record(drive_, read_);
  builder_.Wait(stream, read_);
}

void HostOffload::ParametersOnward(Bytes bytes) {
  if (places_.parameters != OffloadDevice::kNvme) return;
  builder_.Run(step_.compute(),
               builder_.AddHostKernel("nvme_write_parameters", AtRate(bytes, host_.nvme_write)),
               {});
}

namespace {

// Elements that one rank's blocks, except the last, keep for backward.
std::int64_t OffloadedActivations(const scenario::Scenario& scenario) {
  if (!scenario.plan.training.activation_offload) return 0;
  const model::WorkOptions options = plan::WorkOptionsOf(scenario.plan);
  const auto works = model::BuildWork(*scenario.model, options);
  const std::vector<int> of_layers = model::WorkOfLayers(*scenario.model, options);
  std::int64_t bytes = 0, last = 0;
  for (std::size_t i = 0; i < of_layers.size(); ++i) {
    if (scenario.model->layers[i].kind != model::LayerKind::kBlock) continue;
    bytes += last;
    last = works[of_layers[i]].BytesOf(model::Lifetime::kSaved).count();
  }
  return bytes;
}

HostBytes OffloadedBytesOfNode(const scenario::Scenario& scenario) {
  const plan::DataParallel& data_parallel = scenario.plan.data_parallel;
  const plan::DeepSpeed& settings = data_parallel.deepspeed;
  const plan::Training& training = scenario.plan.training;
  const std::int64_t ranks = RanksOfNode(scenario);
  if (data_parallel.cpu_offload) {
    // Shards of parameters, gradients and the optimizer's states.
    std::int64_t part = 0;
    const std::int64_t shards = plan::ShardRanks(scenario.plan);
    for (const model::Tensor& tensor : scenario.model->tensors) {
      part += ShardLength(tensor.elements, shards);
    }
    const std::int64_t each = 2 * std::int64_t{SizeOf(training.parameter_dtype)} +
                              plan::OptimizerBytesPerParameter(training);
    return {.memory = Bytes(ranks * part * each), .drives = {}};
  }
  if (data_parallel.optimizer_cpu_offload) {
    // FP32 values, moments and gradients (HybridDeviceOptimizer).
    const std::int64_t shards = plan::ShardRanks(scenario.plan);
    const std::int64_t part = ShardLength(scenario.model->parameter_count(), shards);
    return {.memory = Bytes(ranks * part * (StateBytes(training) + 4)), .drives = {}};
  }
  if (!settings.offloads()) return {};
  const std::int64_t data = plan::GradientRanks(scenario.plan);
  const bool stage3 = data_parallel.zero_stage == 3;
  const model::Model& model = *scenario.model;
  // Elements of a rank's part: stage 3 cuts every tensor, the others all of them at once.
  std::int64_t part = 0, held = 0;
  if (stage3) {
    for (const model::Tensor& tensor : model.tensors) part += ShardLength(tensor.elements, data);
    held = part;
  } else {
    std::vector<int> all(model.tensors.size());
    std::iota(all.begin(), all.end(), 0);
    const FlatLayout flat = DeepSpeedLayout(model, all, data, settings.round_robin_gradients);
    part = flat.shard;
    held = LargestHolding(flat).elements;
  }
  const std::int64_t kept = SizeOf(training.gradient_dtype);
  std::int64_t memory = 0, drives = 0;
  // FP32 gradients stay in host memory together with the states.
  const std::int64_t states = part * (StateBytes(training) + 4);
  if (settings.offload_optimizer == OffloadDevice::kCpu) memory += states;
  if (settings.offload_optimizer == OffloadDevice::kNvme) {
    drives += states;
    memory += std::min(part, settings.sub_group_size) * (StateBytes(training) + 4);
  }
  if (settings.offload_optimizer != OffloadDevice::kNone) {
    // Stage 3 needs room for accumulated gradients. Other stages need it for those of several
    // micro-batches and for updated parameters on their way back.
    const bool several = training.gradient_accumulation > 1;
    memory += stage3 ? part * kept
                     : part * SizeOf(training.parameter_dtype) + (several ? held * kept : 0);
  }
  const std::int64_t parameters = part * SizeOf(training.parameter_dtype);
  if (settings.offload_param == OffloadDevice::kCpu) memory += parameters;
  if (settings.offload_param == OffloadDevice::kNvme) {
    // Five buffers of 1e8 elements (offload_param.buffer_count, buffer_size).
    drives += parameters;
    memory += 5 * 100'000'000 * std::int64_t{SizeOf(training.parameter_dtype)};
  }
  return {.memory = Bytes(ranks * memory), .drives = Bytes(ranks * drives)};
}

}  // namespace

HostBytes HostBytesOfNode(const scenario::Scenario& scenario) {
  HostBytes bytes = OffloadedBytesOfNode(scenario);
  bytes.memory += Bytes(RanksOfNode(scenario) * OffloadedActivations(scenario));
  const auto& saving = scenario.plan.training.checkpoint_saving;
  if (saving && saving->mode == plan::CheckpointMode::kAsync) {
    bytes.memory += CheckpointBytesOf(scenario, *scenario.model).of_node;
  }
  return bytes;
}

}  // namespace stepcast::lowering
