#include "src/lowering/lowering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/base/diagnostic.h"
#include "src/lowering/framework_steps.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"
#include "tests/proofs/data_flow_validator.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

// Tied embeddings, so that one tensor is used by two layers.
constexpr const char* kTransformer = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 2}
training: {sequence_length: 128, micro_batch_size: 2, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

constexpr const char* kLayers = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: first, parameters: [1000, 24], forward: 1 ms, backward: 2 ms, activation: 1 MiB}
    - {name: plain, parameters: [], forward: 1 ms, backward: 2 ms, activation: 0 B}
    - {name: block, repeat: 3, parameters: [4096, 7], forward: 2 ms, backward: 4 ms,
       activation: 1 MiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 8, memory: 80 GiB, link: {latency: 5 us, bandwidth: 25 GB/s}}
training: {sequence_length: 128, micro_batch_size: 2, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";

program::Program Lowered(const char* text, const std::vector<std::string>& overrides,
                         const LowerOptions& options = {}) {
  static scenario::InputCache cache;  // files are read once
  const auto scenario = scenario::LoadText(text, "test", overrides, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  return LowerRank(*scenario, options);
}

// Plans that cover all settings: no program may have a race, a leak, a use after release or a read
// of uninitialized memory.
std::vector<std::vector<std::string>> Plans() {
  const auto key = [](const std::string& value) { return "data_parallel." + value; };
  std::vector<std::vector<std::string>> plans;
  const auto with = [&](std::vector<std::string> base, std::vector<std::string> more) {
    base.insert(base.end(), more.begin(), more.end());
    plans.push_back(base);
  };
  for (const char* accumulation : {"1", "3"}) {
    const std::string micro = std::string("training.gradient_accumulation=") + accumulation;
    for (const char* stage : {"0", "1", "2", "3"}) {
      const std::vector<std::string> reference{micro, key(std::string("zero_stage=") + stage)};
      with(reference, {});
      with(reference, {key("overlap=false")});
      with(reference, {key("bucket_size=0 B")});
      with(reference, {key("bucket_size=1 KiB"), key("first_bucket_size=4 KiB")});
      with(reference, {key("accumulate_unsharded=true")});
      with(reference, {key("shard_group_size=4")});
      with(reference, {key("shard_group_size=1")});
      with(reference, {"training.gradient_dtype=fp32"});
    }
    const std::vector<std::string> third{micro, key("zero_stage=3")};
    with(third, {key("prefetch=0")});
    with(third, {key("prefetch=3")});
    with(third, {key("reshard_after_forward=false")});
    with(third, {key("reshard_after_forward=4")});
    with(third, {key("reshard_after_forward=2"), key("shard_group_size=4"), key("prefetch=2")});
    with(third, {"training.parameter_dtype=fp32"});
    with(third, {"training.parameter_dtype=fp32", key("reshard_after_forward=4")});
    with(third,
         {"training.parameter_dtype=fp32", key("bucket_size=1 KiB"), key("shard_group_size=4")});

    const std::vector<std::string> ddp{micro, key("framework=ddp")};
    with(ddp, {});
    with(ddp, {key("gradient_as_bucket_view=true")});
    with(ddp, {key("find_unused_parameters=true"), key("bucket_size=1 KiB")});
    with(ddp, {key("bucket_size=0 B"), key("gradient_as_bucket_view=true")});

    for (const char* stage : {"0", "1"}) {
      const std::vector<std::string> nanotron{micro, key("framework=nanotron"),
                                              key(std::string("zero_stage=") + stage)};
      with(nanotron, {});
      with(nanotron, {"training.gradient_clipping=1.0"});
      with(nanotron, {"training.optimizer_implementation=foreach"});
      if (*stage == '0') with(nanotron, {key("bucket_size=1 KiB")});
    }

    for (const char* stage : {"2", "3"}) {
      const std::vector<std::string> fsdp1{micro, key("framework=fsdp1"),
                                           key(std::string("zero_stage=") + stage)};
      with(fsdp1, {});
      with(fsdp1, {"training.parameter_dtype=fp32"});
      with(fsdp1, {"training.parameter_dtype=fp32", "training.reduce_dtype=fp32"});
      with(fsdp1, {"training.parameter_dtype=fp32", "software={torch: \"2.1\"}",
                   key("shard_group_size=4")});
      with(fsdp1, {"software={torch: \"2.0\"}", key("shard_group_size=4")});
      with(fsdp1, {key("backward_prefetch=post"), key("forward_prefetch=true")});
      with(fsdp1, {key("backward_prefetch=none"), key("limit_all_gathers=false")});
      with(fsdp1, {key("use_orig_params=true"), "training.reduce_dtype=fp32"});
      with(fsdp1, {key("accumulate_unsharded=true")});
      with(fsdp1, {key("accumulate_unsharded=true"), "training.reduce_dtype=fp32"});
      with(fsdp1, {key("shard_group_size=4")});
      with(fsdp1, {key("shard_group_size=1"), "training.parameter_dtype=fp32"});
    }

    const std::vector<std::string> fsdp2{micro, key("framework=fsdp2"), key("zero_stage=3")};
    with(fsdp2, {});
    with(fsdp2, {"training.parameter_dtype=fp32"});
    with(fsdp2, {"training.parameter_dtype=fp32", "training.reduce_dtype=fp32"});
    with(fsdp2, {key("prefetch=0")});
    with(fsdp2, {key("prefetch=3")});
    with(fsdp2, {key("reshard_after_forward=false")});
    with(fsdp2, {key("reshard_after_forward=4")});
    with(fsdp2, {key("accumulate_unsharded=true")});
    with(fsdp2, {key("accumulate_unsharded=true"), "training.reduce_dtype=fp32"});
    with(fsdp2, {key("shard_group_size=4")});
    with(fsdp2, {key("shard_group_size=4"), key("prefetch=2"), key("accumulate_unsharded=true")});
  }
  for (const char* accumulation : {"1", "3"}) {
    const auto setting = [](const std::string& value) {
      return "data_parallel.deepspeed." + value;
    };
    for (const char* stage : {"0", "1", "2"}) {
      const std::vector<std::string> deepspeed{
          std::string("training.gradient_accumulation=") + accumulation, key("framework=deepspeed"),
          key(std::string("zero_stage=") + stage)};
      with(deepspeed, {});
      with(deepspeed, {"training.reduce_dtype=fp32"});
      with(deepspeed, {"training.precision=fp16"});
      with(deepspeed, {"training.precision=fp32", "training.optimizer_implementation=foreach"});
      if (*stage == '0') continue;
      with(deepspeed, {key("overlap=true")});
      with(deepspeed, {setting("reduce_bucket_size=5000")});
      with(deepspeed, {key("overlap=true"), setting("reduce_bucket_size=5000")});
      with(deepspeed, {key("overlap=true"), setting("reduce_bucket_size=1000000"),
                       "training.reduce_dtype=fp32"});
      with(deepspeed, {setting("reduce_scatter=false")});
      with(deepspeed, {key("overlap=true"), setting("round_robin_gradients=true")});
      if (*stage == '1') {
        with(deepspeed, {"training.gradient_dtype=fp32"});
        with(deepspeed, {"training.gradient_dtype=fp32", key("overlap=true"),
                         setting("reduce_bucket_size=5000")});
      }
    }
  }
  for (const char* accumulation : {"1", "3"}) {
    const auto setting = [](const std::string& value) {
      return "data_parallel.deepspeed." + value;
    };
    const std::vector<std::string> third{
        std::string("training.gradient_accumulation=") + accumulation, key("framework=deepspeed"),
        key("zero_stage=3")};
    with(third, {});
    with(third, {key("overlap=false")});
    with(third, {"training.precision=fp16", "training.reduce_dtype=fp32"});
    with(third, {"training.gradient_dtype=fp32", setting("reduce_bucket_size=5000")});
    with(third, {setting("reduce_scatter=false"), setting("sub_group_size=3000")});
    with(third, {setting("stage3_param_persistence_threshold=0"),
                 setting("stage3_prefetch_bucket_size=0"), setting("stage3_max_reuse_distance=0")});
    with(third,
         {setting("stage3_param_persistence_threshold=100"),
          setting("stage3_prefetch_bucket_size=9000"), setting("stage3_max_reuse_distance=5000"),
          setting("stage3_max_live_parameters=20000")});
    with(third,
         {setting("zero_hpz_partition_size=4"), setting("stage3_param_persistence_threshold=0")});
    with(third, {setting("zero_hpz_partition_size=2"), setting("stage3_max_reuse_distance=5000"),
                 setting("stage3_param_persistence_threshold=0"), key("overlap=false")});
    with(third, {setting("stage3_param_persistence_threshold=10"),
                 "training.activation_checkpointing=full"});
  }
  for (const char* framework : {"ddp", "fsdp1", "fsdp2", "megatron", "deepspeed"}) {
    const bool shards = std::string(framework).starts_with("fsdp");
    const std::vector<std::string> own{"training.gradient_accumulation=2",
                                       key(std::string("framework=") + framework),
                                       key(shards ? "zero_stage=3" : "zero_stage=0")};
    with(own, {"training.activation_offload=true"});
    with(own, {"training.activation_offload=true", "training.activation_checkpointing=full",
               "training.checkpointed_blocks=2/3"});
    with(own, {"training.host_waits=micro_batch"});
    with(own, {"training.host_waits=update", "training.compile=true"});
    with(own, {"training.host_waits=step"});
    if (std::string(framework) == "megatron" || std::string(framework) == "deepspeed") continue;
    with(own, {"training.optimizer_implementation=single"});
    if (!shards) continue;
    with(own, {key("units=layer"), "training.optimizer_implementation=single",
               "training.parameter_dtype=fp32"});
  }
  for (const char* policy : {"selective", "full"}) {
    with({std::string("training.activation_checkpointing=") + policy}, {});
    if (policy[0] == 'f') {
      with({"training.activation_checkpointing=full", "training.blocks_per_checkpoint=5"},
           {"training.attention=math"});
    }
    with({std::string("training.activation_checkpointing=") + policy, key("framework=fsdp2"),
          key("zero_stage=3")},
         {"training.attention=math"});
    with({std::string("training.activation_checkpointing=") + policy, key("framework=fsdp1"),
          key("zero_stage=3")},
         {"training.parameter_dtype=fp32", "training.reduce_dtype=fp32"});
  }
  return plans;
}

std::string Joined(const std::vector<std::string>& overrides) {
  std::string all;
  for (const std::string& one : overrides) all += one + " ";
  return all;
}

TEST(Lowering, ProgramsOfTransformersAreSound) {
  for (const auto& plan : Plans()) {
    const auto violations = program::Validate(Lowered(kTransformer, plan));
    EXPECT_TRUE(violations.empty()) << Joined(plan) << "\n" << violations.front();
  }
}

// Recomputed modules whose input is divided among ranks by tokens, or cast.
TEST(Lowering, ProgramsOfRecomputedModulesAreSound) {
  constexpr const char* kDivided = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 64, micro_batch_size: 1, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw, activation_checkpointing: selective}
parallelism: {tensor: 2, sequence_parallel: true}
data_parallel: {zero_stage: 0, framework: reference}
)";
  for (const std::string framework : {"reference", "megatron"}) {
    for (const std::string modules : {"core_attn", "mlp", "layernorm", "core_attn mlp layernorm"}) {
      for (const std::string precision : {"bf16", "fp8"}) {
        if (framework == "reference" && precision == "fp8") continue;
        const auto violations =
            program::Validate(Lowered(kDivided, {"data_parallel.framework=" + framework,
                                                 "training.recompute_modules=" + modules,
                                                 "training.precision=" + precision}));
        EXPECT_TRUE(violations.empty()) << framework << " " << modules << " " << precision << "\n"
                                        << violations.front();
      }
    }
  }
}

// Shared experts on the second lane, in every type that experts support.
TEST(Lowering, ProgramsOfSharedExpertsBesideAreSound) {
  constexpr const char* kMixture = R"(
stepcast: 1
model: models/deepseek-v2-lite.yaml
cluster: {topology: topologies/dgx-b200.yaml, nodes: 1}
training: {sequence_length: 256, micro_batch_size: 1, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw}
parallelism: {expert: 8}
experts: {overlap_shared_experts: true}
data_parallel: {zero_stage: 1, framework: megatron}
)";
  for (const char* precision : {"bf16", "fp8", "mxfp8", "nvfp4"}) {
    const auto violations =
        program::Validate(Lowered(kMixture, {std::string("training.precision=") + precision}));
    EXPECT_TRUE(violations.empty()) << precision << "\n" << violations.front();
  }
}

TEST(Lowering, ProgramsOfLayerListsAreSound) {
  for (const auto& plan : Plans()) {
    if (Joined(plan).find("training.a") != std::string::npos) continue;  // no kernels to recompute
    const auto violations = program::Validate(Lowered(kLayers, plan));
    EXPECT_TRUE(violations.empty()) << Joined(plan) << "\n" << violations.front();
  }
}

// GPT-2's blocks keep what Korthikanti et al. count, or with full recomputation only their input: 2
// x 128 tokens of 768 in 16 bits. 11 of 12 blocks copy it to the host and back once per
// micro-batch, and at most two have it on the device at once.
TEST(Lowering, OffloadedActivationsLeaveTheDeviceAndComeBack) {
  const program::Program program =
      Lowered(kTransformer, {"training.activation_offload=true", "training.gradient_accumulation=2",
                             "training.activation_checkpointing=full"});
  const Bytes input(2 * 128 * 768 * 2);
  Bytes to_host, to_device;
  int alive = 0, most = 0;
  const auto is_input = [&](const program::Instruction& instruction) {
    const std::string name = program.NameOf(program.buffers[instruction.operand]);
    return name.starts_with("transformer.h.") && name.ends_with("/input");
  };
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode == Opcode::kCopy) {
      const program::Copy& copy = program.copies[instruction.operand];
      EXPECT_EQ(copy.bytes, input);
      (copy.direction == program::CopyDirection::kDeviceToHost ? to_host : to_device) += copy.bytes;
    } else if (instruction.opcode == Opcode::kAllocate && is_input(instruction)) {
      most = std::max(most, ++alive);
    } else if (instruction.opcode == Opcode::kRelease && is_input(instruction)) {
      --alive;
    }
  }
  EXPECT_EQ(to_host, 2 * 11 * input);
  EXPECT_EQ(to_device, 2 * 11 * input);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(most, 2);
}

// GPT-2's 12 blocks with checkpoints of four blocks: forward keeps three inputs of 2 x 128 tokens
// of 768 in 16 bits. When the backward of a checkpoint's last block begins, the inputs of its other
// three blocks exist again, once per checkpoint, and so do the inner values of all four: four times
// those of one block.
TEST(Lowering, BlocksOfOneCheckpointRunAgainTogether) {
  struct Alive {
    int inputs = 0, recomputed = 0, most_inputs = 0, most_recomputed = 0, made = 0;
  };
  const auto count = [](const char* blocks) {
    const program::Program program =
        Lowered(kTransformer, {"training.activation_checkpointing=full",
                               std::string("training.blocks_per_checkpoint=") + blocks});
    EXPECT_TRUE(program::Validate(program).empty());
    Alive alive;
    for (const program::Instruction& instruction : program.step) {
      const bool allocates = instruction.opcode == Opcode::kAllocate;
      if (!allocates && instruction.opcode != Opcode::kRelease) continue;
      const std::string name = program.NameOf(program.buffers[instruction.operand]);
      const int change = allocates ? 1 : -1;
      if (!name.starts_with("transformer.h.")) continue;
      if (name.ends_with("/input") || name.ends_with("/input (recomputed)")) {
        alive.inputs += change;
        alive.most_inputs = std::max(alive.most_inputs, alive.inputs);
        if (allocates) ++alive.made;
      } else if (name.ends_with(" (recomputed)")) {
        alive.recomputed += change;
        alive.most_recomputed = std::max(alive.most_recomputed, alive.recomputed);
      }
    }
    EXPECT_EQ(alive.inputs, 0);
    EXPECT_EQ(alive.recomputed, 0);
    return alive;
  };
  const Alive single = count("1"), four = count("4"), twelve = count("12"), all = count("100");
  EXPECT_EQ(single.most_inputs, 12);
  EXPECT_EQ(four.most_inputs, 3 + 3);
  EXPECT_EQ(twelve.most_inputs, 12);
  for (const Alive& alive : {single, four, twelve}) EXPECT_EQ(alive.made, 12);
  EXPECT_EQ(four.most_recomputed, 4 * single.most_recomputed);
  EXPECT_EQ(twelve.most_recomputed, 12 * single.most_recomputed);
  EXPECT_EQ(all.most_recomputed, twelve.most_recomputed);
  EXPECT_GT(single.most_recomputed, 5);
}

// Plans that are forecast but not executed: states on the host, quantized collectives.
TEST(Lowering, ProgramsThatLeaveTheDeviceAreSound) {
  const auto setting = [](const std::string& value) { return "data_parallel.deepspeed." + value; };
  const std::vector<std::vector<std::string>> of_stage_three = {
      {setting("offload_optimizer=cpu")},
      {setting("offload_optimizer=nvme"), setting("sub_group_size=3000000")},
      {setting("offload_param=cpu")},
      {setting("offload_param=nvme"), setting("offload_optimizer=nvme")},
      {setting("offload_param=cpu"), setting("offload_optimizer=cpu"),
       setting("stage3_param_persistence_threshold=0"), setting("zero_hpz_partition_size=8")},
      {setting("zero_quantized_weights=true")},
      {setting("zero_quantized_weights=true"), setting("zero_hpz_partition_size=8"),
       setting("stage3_max_reuse_distance=0")},
      {setting("zero_quantized_gradients=true")},
      {setting("zero_quantized_gradients=true"), setting("reduce_bucket_size=1000000"),
       "training.gradient_dtype=fp32"},
  };
  for (const char* accumulation : {"1", "3"}) {
    const std::vector<std::string> base = {
        std::string("training.gradient_accumulation=") + accumulation,
        "data_parallel.framework=deepspeed"};
    std::vector<std::vector<std::string>> plans;
    for (const char* stage : {"1", "2", "3"}) {
      std::vector<std::string> at = base;
      at.push_back(std::string("data_parallel.zero_stage=") + stage);
      if (*stage == '3') {
        for (const auto& more : of_stage_three) {
          plans.push_back(at);
          plans.back().insert(plans.back().end(), more.begin(), more.end());
        }
        continue;
      }
      at.push_back(setting("offload_optimizer=cpu"));
      plans.push_back(at);
      at.push_back("data_parallel.overlap=true");
      at.push_back(setting("reduce_bucket_size=10000000"));
      plans.push_back(at);
    }
    for (const auto& plan : plans) {
      const auto violations = program::Validate(Lowered(kTransformer, plan));
      EXPECT_TRUE(violations.empty()) << Joined(plan) << "\n" << violations.front();
    }
  }
}

// A rank with a node to itself exchanges nothing inside it.
TEST(Lowering, QuantisedGradientsOfNodesOfOneGpuGoAcrossAlone) {
  for (const char* devices : {"2", "4"}) {
    const program::Program program =
        Lowered(kTransformer, {std::string("cluster={topology: {kind: flat, devices: ") + devices +
                                   ", gpu: h100-sxm, link: {latency: 5 us, bandwidth: 25 GB/s}}}",
                               "data_parallel={framework: deepspeed, zero_stage: 3, deepspeed: "
                               "{zero_quantized_gradients: "
                               "true}}"});
    const auto violations = program::Validate(program);
    EXPECT_TRUE(violations.empty()) << violations.front();
    for (const program::Collective& collective : program.collectives) {
      EXPECT_NE(collective.communicator, program::kNone);
    }
  }
}

// GPT-2 on the GPUs of one node that has memory and drives.
std::string TransformerOn(const char* ranks) {
  return std::string(R"(
stepcast: 1
model: models/gpt2.yaml
cluster:
  topology:
    name: one node
    node:
      gpu: h100-sxm
      devices: {gpu: )") +
         ranks + R"(, pcie_switch: 1, cpu: 1}
      host: {memory: 1 TiB, memory_bandwidth: 400 GB/s,
             nvme: {capacity: 8 TB, read: 8 GB/s, write: 4 GB/s}}
      links:
        - {kind: pcie, from: gpu, to: pcie_switch, latency: 150 ns, bandwidth: 32 GB/s}
        - {kind: pcie, from: pcie_switch, to: cpu, latency: 150 ns, bandwidth: 32 GB/s}
training: {sequence_length: 128, micro_batch_size: 2, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: reference}
)";
}

// All offloads of a plan, on one rank, which gathers nothing, and on two.
TEST(Lowering, EveryOffloadIsSoundOnOneRankAndOnTwo) {
  using Overrides = std::vector<std::string>;
  const auto key = [](const std::string& value) { return "data_parallel." + value; };
  const auto deepspeed = [&](const std::string& value) { return key("deepspeed." + value); };
  std::vector<Overrides> plans;
  for (const std::string device : {"none", "cpu", "nvme"}) {
    for (const std::string stage : {"1", "2", "3"}) {
      // DeepSpeed has no drives below stage 3.
      if (stage != "3" && device != "cpu") continue;
      for (const std::string parameters : {"none", "cpu", "nvme"}) {
        if (stage != "3" && parameters != "none") continue;
        for (const std::string overlap : {"true", "false"}) {
          const Overrides plan = {
              key("framework=deepspeed"), key("zero_stage=" + stage), key("overlap=" + overlap),
              deepspeed("offload_optimizer=" + device), deepspeed("offload_param=" + parameters)};
          plans.push_back(plan);
          if (stage != "3") continue;
          for (const Overrides& more : {Overrides{deepspeed("stage3_param_persistence_threshold=0"),
                                                  deepspeed("stage3_max_reuse_distance=0")},
                                        Overrides{deepspeed("stage3_prefetch_bucket_size=0"),
                                                  deepspeed("sub_group_size=3000000")},
                                        Overrides{deepspeed("stage3_max_live_parameters=1000000"),
                                                  deepspeed("zero_quantized_weights=true"),
                                                  "training.activation_checkpointing=full"}}) {
            plans.push_back(plan);
            plans.back().insert(plans.back().end(), more.begin(), more.end());
          }
        }
      }
    }
  }
  for (const char* framework : {"fsdp1", "fsdp2"}) {
    plans.push_back(
        {key(std::string("framework=") + framework), key("zero_stage=3"), key("cpu_offload=true")});
  }
  for (const std::string overlap : {"true", "false"}) {
    plans.push_back({key("framework=megatron"), key("zero_stage=1"),
                     key("optimizer_cpu_offload=true"),
                     key("overlap_cpu_optimizer_d2h_h2d=" + overlap)});
  }
  for (const Overrides& framework :
       {Overrides{key("framework=reference")}, Overrides{key("framework=ddp")},
        Overrides{key("framework=fsdp1"), key("zero_stage=3")},
        Overrides{key("framework=fsdp2"), key("zero_stage=3")},
        Overrides{key("framework=megatron"), key("zero_stage=1")},
        Overrides{key("framework=deepspeed"), key("zero_stage=3")},
        Overrides{key("framework=deepspeed"), key("zero_stage=3"), deepspeed("offload_param=cpu"),
                  deepspeed("offload_optimizer=cpu")}}) {
    plans.push_back(framework);
    plans.back().push_back("training.activation_offload=true");
  }
  for (const char* ranks : {"1", "2"}) {
    for (const char* accumulation : {"1", "2"}) {
      for (Overrides plan : plans) {
        // It adds gradients up on the device alone.
        if (Joined(plan).find("fsdp1") != std::string::npos &&
            Joined(plan).find("cpu_offload") != std::string::npos && *accumulation == '2') {
          continue;
        }
        plan.push_back(std::string("training.gradient_accumulation=") + accumulation);
        const auto violations = program::Validate(Lowered(TransformerOn(ranks).c_str(), plan));
        EXPECT_TRUE(violations.empty()) << ranks << " ranks: " << Joined(plan) << "\n"
                                        << violations.front();
      }
    }
  }
}

// The effects of operations on values lie inside the ranges that the operations declare, also for a
// middle rank. tests/training checks that the values are right.
TEST(Lowering, DataFlowsFitTheirPrograms) {
  for (const char* text : {kTransformer, kLayers}) {
    for (const auto& plan : Plans()) {
      if (text == kLayers && Joined(plan).find("training.a") != std::string::npos) continue;
      for (const int rank : {0, 5}) {
        const auto program = Lowered(text, plan, {.rank = rank, .data_flow = true});
        EXPECT_FALSE(program.data_flow.effects.empty());
        const auto violations = program::Validate(program);
        EXPECT_TRUE(violations.empty()) << Joined(plan) << "\n" << violations.front();
        const auto sentences = program::ValidateDataFlow(program);
        EXPECT_TRUE(sentences.empty()) << Joined(plan) << "\n" << sentences.front();
      }
    }
  }
}

// Without a request there is no data flow.
TEST(Lowering, LeavesTheDataFlowOutUnlessAskedFor) {
  const auto program = Lowered(kLayers, {});
  EXPECT_TRUE(program.data_flow.empty());
  EXPECT_TRUE(program.data_flow.effects.empty());
  EXPECT_TRUE(program.data_flow.state.empty());
}

TEST(Lowering, OneRankCommunicatesWithNobody) {
  for (const char* framework : {"reference", "fsdp1", "fsdp2"}) {
    const auto program = Lowered(
        kLayers, {"cluster.topology.devices=1", std::string("data_parallel.framework=") + framework,
                  "data_parallel.zero_stage=3"});
    EXPECT_TRUE(program.communicators.empty());
    const auto violations = program::Validate(program);
    EXPECT_TRUE(violations.empty()) << violations.front();
  }
}

// The order in which communication is issued, as "collective bytes" lines.
std::vector<std::string> Collectives(const program::Program& program) {
  std::vector<std::string> lines;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const program::Collective& collective = program.collectives[instruction.operand];
    lines.push_back(std::string(Name(collective.kind)) + " " +
                    std::to_string(collective.bytes.count()));
  }
  return lines;
}

// Three blocks of 4103 parameters, then 'first' of 1024, on 8 ranks in bf16. Block shards are
// ceil(4096 / 8) + ceil(7 / 8) = 513 rows, 4104 gathered: 8208 B; 'first': 125 + 3 -> 1024: 2048 B.
// Forward gathers in order. In backward, unshard and prefetch of the next unit come before the
// gradients, and the reduce-scatter after them. The last block was freed after its forward. FP32
// shards are cast before they are gathered, so the traffic is the same as with BF16 shards.
TEST(Reference, GathersShardsInTheComputeType) {
  const auto gathers = [](const char* parameters, const char* reshard) {
    const program::Program program =
        Lowered(kLayers, {"data_parallel.zero_stage=3",
                          std::string("data_parallel.reshard_after_forward=") + reshard,
                          std::string("training.parameter_dtype=") + parameters});
    std::vector<std::pair<DataType, Bytes>> gathers;
    for (const program::Instruction& instruction : program.step) {
      if (instruction.opcode != Opcode::kCollective) continue;
      const program::Collective& collective = program.collectives[instruction.operand];
      if (collective.kind != CollectiveKind::kAllGather) continue;
      gathers.emplace_back(collective.data_type, collective.bytes);
    }
    return gathers;
  };
  for (const char* reshard : {"true", "false", "4"}) {
    const auto of_bf16 = gathers("bf16", reshard);
    EXPECT_FALSE(of_bf16.empty());
    EXPECT_EQ(of_bf16.front().first, DataType::kBf16);
    EXPECT_EQ(gathers("fp32", reshard), of_bf16) << reshard;
  }
}

// Each of the two chunks of a stage has two blocks of 4103 parameters: 16,412 B in BF16. Each of
// the four micro-batches reduces both chunks, and the updated parameters of both are gathered.
// Gradients that add up whole are reduced once: all four blocks, 32,824 B.
TEST(Reference, ReducesChunksInEachMicroBatch) {
  constexpr const char* kPipeline = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 8, parameters: [4096, 7], forward: 2 ms, backward: 4 ms,
       activation: 1 MiB, output: 1 KiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 4, memory: 80 GiB, link: {latency: 5 us, bandwidth: 25 GB/s}}
training: {sequence_length: 128, micro_batch_size: 2, gradient_accumulation: 4, precision: bf16,
           optimizer: adamw}
parallelism: {pipeline: 2, virtual_stages: 2}
data_parallel: {zero_stage: 2, framework: reference}
)";
  std::vector<std::string> expected(8, "reduce_scatter 16412");
  expected.insert(expected.end(), 2, "all_gather 16412");
  EXPECT_EQ(Collectives(Lowered(kPipeline, {})), expected);
  EXPECT_EQ(Collectives(Lowered(kPipeline, {"data_parallel.accumulate_unsharded=true"})),
            (std::vector<std::string>{"reduce_scatter 32824", "all_gather 32824"}));
}

TEST(Fsdp2, IssuesGathersAndReductionsInTheFrameworksOrder) {
  EXPECT_EQ(
      Collectives(
          Lowered(kLayers, {"data_parallel.framework=fsdp2", "data_parallel.zero_stage=3"})),
      (std::vector<std::string>{"all_gather 2048", "all_gather 8208", "all_gather 8208",
                                "all_gather 8208", "all_gather 8208", "all_gather 8208",
                                "reduce_scatter 8208", "all_gather 8208", "reduce_scatter 8208",
                                "all_gather 2048", "reduce_scatter 8208", "reduce_scatter 2048"}));
}

// Without resharding nothing is gathered twice.
TEST(Fsdp2, KeepsUnitsWhenToldTo) {
  EXPECT_EQ(
      Collectives(Lowered(kLayers, {"data_parallel.framework=fsdp2", "data_parallel.zero_stage=3",
                                    "data_parallel.reshard_after_forward=false"})),
      (std::vector<std::string>{"all_gather 2048", "all_gather 8208", "all_gather 8208",
                                "all_gather 8208", "reduce_scatter 8208", "reduce_scatter 8208",
                                "reduce_scatter 8208", "reduce_scatter 2048"}));
}

// Backward, in host order: G an all-gather, J the end of a unit's gradients, R a reduce-scatter.
std::string BackwardOf(const program::Program& program) {
  std::string letters;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.phase != program::Phase::kBackward) continue;
    if (instruction.opcode == Opcode::kKernel) {
      if (program.kernels[instruction.operand].name == "join_gradients") letters += 'J';
    } else if (instruction.opcode == Opcode::kCollective) {
      const auto kind = program.collectives[instruction.operand].kind;
      letters += kind == CollectiveKind::kAllGather ? 'G' : 'R';
    }
  }
  return letters;
}

// Three blocks of 4103 parameters behind one of 1024, on 8 ranks in bf16: flat shards of 513 and
// 128, gathered 8208 B and 2048 B. Forward gathers in order, backward in the opposite order.
TEST(Fsdp1, GathersFlatParametersInTheFrameworksOrder) {
  const program::Program program =
      Lowered(kLayers, {"data_parallel.framework=fsdp1", "data_parallel.zero_stage=3"});
  EXPECT_EQ(
      Collectives(program),
      (std::vector<std::string>{"all_gather 2048", "all_gather 8208", "all_gather 8208",
                                "all_gather 8208", "all_gather 8208", "all_gather 8208",
                                "reduce_scatter 8208", "all_gather 8208", "reduce_scatter 8208",
                                "all_gather 2048", "reduce_scatter 8208", "reduce_scatter 2048"}));
  // BACKWARD_PRE: each block asks for the one before it ahead of its own gradients.
  EXPECT_EQ(BackwardOf(program), "GGJRGJRGJRJR");
}

// BACKWARD_POST: after the gradients, before their reduction. None: when a backward begins.
TEST(Fsdp1, AsksForTheNextUnitWhenToldTo) {
  const auto backward = [](const char* prefetch) {
    return BackwardOf(
        Lowered(kLayers, {"data_parallel.framework=fsdp1", "data_parallel.zero_stage=3",
                          std::string("data_parallel.backward_prefetch=") + prefetch}));
  };
  EXPECT_EQ(backward("post"), "GJGRJGRJGRJR");
  EXPECT_EQ(backward("none"), "GJRGJRGJRGJR");
}

// The root (51283 x 768 parameters of embeddings and final norm, in bf16) is gathered first and
// kept. It requests the last of the 12 blocks before its own backward, and is reduced last.
TEST(Fsdp1, KeepsTheRootBetweenForwardAndBackward) {
  const std::vector<std::string> fsdp1 = {"data_parallel.framework=fsdp1",
                                          "data_parallel.zero_stage=3"};
  const auto lines = Collectives(Lowered(kTransformer, fsdp1));
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(1 + 12 + 12 + 12 + 1));
  EXPECT_EQ(lines.front(), "all_gather 78770688");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), lines.front()), 1);
  EXPECT_EQ(lines.back(), "reduce_scatter 78770688");
  EXPECT_EQ(BackwardOf(Lowered(kTransformer, fsdp1)).substr(0, 5), "GGJRG");
}

// SHARD_GRAD_OP gathers once.
TEST(Fsdp1, KeepsUnitsAtStageTwo) {
  EXPECT_EQ(
      Collectives(
          Lowered(kLayers, {"data_parallel.framework=fsdp1", "data_parallel.zero_stage=2"})),
      (std::vector<std::string>{"all_gather 2048", "all_gather 8208", "all_gather 8208",
                                "all_gather 8208", "reduce_scatter 8208", "reduce_scatter 8208",
                                "reduce_scatter 8208", "reduce_scatter 2048"}));
}

// no_sync with two micro-batches: FULL_SHARD gathers in each forward and backward and reduces in
// the last; SHARD_GRAD_OP keeps its parameters from the first micro-batch on.
TEST(Fsdp1, NoSyncReducesInTheLastMicroBatch) {
  const auto count = [](const char* stage, const std::string& what) {
    const auto lines = Collectives(Lowered(
        kLayers, {"data_parallel.framework=fsdp1", std::string("data_parallel.zero_stage=") + stage,
                  "data_parallel.accumulate_unsharded=true", "training.gradient_accumulation=2"}));
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.compare(0, what.size(), what) == 0;
    });
  };
  EXPECT_EQ(count("3", "all_gather"), 2 * (4 + 4));
  EXPECT_EQ(count("3", "reduce_scatter"), 3 + 1);
  EXPECT_EQ(count("2", "all_gather"), 3 + 1);
  EXPECT_EQ(count("2", "reduce_scatter"), 3 + 1);
}

// Hybrid sharding: a reduce-scatter inside the group of 4, and an all-reduce of the shard, of
// ceil(4103 / 4) = 1026 and 1024 / 4 = 256 elements, over the two groups.
TEST(Fsdp1, HybridShardingReducesTheShardOverTheReplicas) {
  std::vector<std::string> reductions;
  for (const std::string& line :
       Collectives(Lowered(kLayers, {"data_parallel.framework=fsdp1", "data_parallel.zero_stage=3",
                                     "data_parallel.shard_group_size=4"}))) {
    if (line.find("reduce") != std::string::npos) reductions.push_back(line);
  }
  EXPECT_EQ(reductions, (std::vector<std::string>{"reduce_scatter 8208", "all_reduce 2052",
                                                  "reduce_scatter 8208", "all_reduce 2052",
                                                  "reduce_scatter 8208", "all_reduce 2052",
                                                  "reduce_scatter 2048", "all_reduce 512"}));
}

std::vector<std::string> StreamNames(const char* torch, const char* shard_group_size) {
  std::vector<std::string> names;
  for (const program::Stream& stream :
       Lowered(kLayers, {"data_parallel.framework=fsdp1", "data_parallel.zero_stage=3",
                         std::string("software={torch: \"") + torch + "\"}",
                         std::string("data_parallel.shard_group_size=") + shard_group_size})
           .streams) {
    names.push_back(stream.name);
  }
  return names;
}

TEST(Fsdp1, StreamsFollowTheVersion) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(StreamNames("2.8", "8"), (Names{"compute", "pre-unshard", "unshard", "post-backward"}));
  EXPECT_EQ(StreamNames("2.8", "4"),
            (Names{"compute", "pre-unshard", "unshard", "post-backward", "all-reduce"}));
  EXPECT_EQ(StreamNames("2.7", "4"), (Names{"compute", "pre-unshard", "unshard", "post-backward",
                                            "nccl shard", "nccl replica", "all-reduce"}));
  EXPECT_EQ(StreamNames("2.0", "4"), (Names{"compute", "pre-unshard", "unshard", "post-backward",
                                            "nccl shard", "nccl replica"}));
}

// The factor of default_hooks.py: the smallest power of two that is at least the square root of the
// ranks, provided that it divides them.
TEST(Fsdp1, DividesGradientsBeforeAndAfterTheReduction) {
  for (const auto& [ranks, factor] : {std::pair{1, 1},
                                      {2, 2},
                                      {3, 2},
                                      {4, 2},
                                      {8, 4},
                                      {12, 4},
                                      {16, 4},
                                      {64, 8},
                                      {128, 16},
                                      {512, 32}}) {
    EXPECT_EQ(GradientPredivideFactor(ranks), factor) << ranks;
  }
}

// Tensors become ready as 7, 4096 per block (last registered first), then 24, 1000 of 'first'. The
// limit is 8 KiB, also for the first bucket because it was given: 14 + 8192 B closes a bucket for
// each block, and 'first' has 2048 B left over.
TEST(Ddp, ReducesBucketsInReadyOrder) {
  EXPECT_EQ(Collectives(Lowered(
                kLayers, {"data_parallel.framework=ddp", "data_parallel.bucket_size=8 KiB"})),
            (std::vector<std::string>{"all_reduce 8206", "all_reduce 8206", "all_reduce 8206",
                                      "all_reduce 2048"}));
}

// Three micro-batches without no_sync reduce the four buckets three times, and with it once. Stage
// 1 of megatron reduce-scatters its one bucket in each and gathers the parameters once.
TEST(Ddp, ReducesInEveryMicroBatchWithoutNoSync) {
  const auto of = [](std::vector<std::string> overrides) {
    overrides.push_back("training.gradient_accumulation=3");
    const program::Program program = Lowered(kLayers, overrides);
    const auto violations = program::Validate(program);
    EXPECT_TRUE(violations.empty()) << Joined(overrides) << "\n" << violations.front();
    return Collectives(program);
  };
  const std::vector<std::string> step = {"all_reduce 8206", "all_reduce 8206", "all_reduce 8206",
                                         "all_reduce 2048"};
  std::vector<std::string> three;
  for (int i = 0; i < 3; ++i) three.insert(three.end(), step.begin(), step.end());
  const std::string ddp = "data_parallel.framework=ddp";
  const std::string size = "data_parallel.bucket_size=8 KiB";
  const std::string each = "data_parallel.no_sync=false";
  EXPECT_EQ(of({ddp, size}), step);
  EXPECT_EQ(of({ddp, size, each}), three);
  EXPECT_EQ(of({ddp, size, each, "data_parallel.gradient_as_bucket_view=true"}), three);
  const auto lines = of({"data_parallel.framework=megatron", "data_parallel.zero_stage=1",
                         "data_parallel.overlap=false", each});
  const auto count = [&lines](const std::string& kind) {
    return std::count_if(lines.begin(), lines.end(),
                         [&](const std::string& line) { return line.starts_with(kind); });
  };
  EXPECT_EQ(count("reduce_scatter"), 3);
  EXPECT_EQ(count("all_gather"), 1);
}

// Before torch 2, an explicit cap leaves the first bucket at 1 MiB: everything here fits in it.
TEST(Ddp, KeepsTheSmallFirstBucketBeforeTorchTwo) {
  EXPECT_EQ(Collectives(
                Lowered(kLayers, {"data_parallel.framework=ddp", "data_parallel.bucket_size=8 KiB",
                                  "software={torch: \"1.13\"}"})),
            (std::vector<std::string>{"all_reduce 26666"}));
}

// Definition order and a reversed list: 'first' (24 and 1000 elements) does not fill 1 MiB, so the
// first limit is set to 2 KiB: {1000, 24} is the small bucket, and it is reduced last.
TEST(Ddp, FindUnusedParametersReducesTheFirstLayersLast) {
  EXPECT_EQ(Collectives(
                Lowered(kLayers, {"data_parallel.framework=ddp", "data_parallel.bucket_size=8 KiB",
                                  "data_parallel.first_bucket_size=2 KiB",
                                  "data_parallel.find_unused_parameters=true"})),
            (std::vector<std::string>{"all_reduce 14", "all_reduce 8206", "all_reduce 8206",
                                      "all_reduce 8192", "all_reduce 2048",
                                      // one int32 for each of the 8 tensors
                                      "all_reduce 32"}));
}

// Trace of PyTorch on two A100 (facebookresearch/HolisticTraceAnalysis@f4d0062
// tests/data/nccl_parser_config): five all-reduces of these numbers of FP32 gradients, in this
// order.
TEST(Lowering, MakesTheBucketsOfATracedResNet) {
  const auto scenario = scenario::Load("scenarios/resnet50-ddp/scenario.yaml");
  ASSERT_TRUE(scenario.has_value());
  const program::Program program = LowerRank(*scenario);
  std::vector<Bytes> buckets;
  for (const program::Collective& collective : program.collectives) {
    buckets.push_back(collective.bytes);
  }
  EXPECT_EQ(buckets,
            (std::vector<Bytes>{Bytes(4 * 2'049'000), Bytes(4 * 7'875'584), Bytes(4 * 6'563'840),
                                Bytes(4 * 6'637'568), Bytes(4 * 2'431'040)}));
}

std::vector<std::string> DeepSpeedCollectives(const char* stage,
                                              std::vector<std::string> settings) {
  for (std::string& setting : settings) setting = "data_parallel.deepspeed." + setting;
  settings.push_back("data_parallel.framework=deepspeed");
  settings.push_back(std::string("data_parallel.zero_stage=") + stage);
  return Collectives(Lowered(kLayers, settings));
}

// Ready order 7, 4096, 7, 4096, 7, 4096, 24, 1000; 5000 elements a bucket: {7, 4096, 7}, {4096, 7},
// {4096, 24}, {1000}. Then the norm, and all 13,333 elements padded to a multiple of 2 x 8: 13,344.
TEST(DeepSpeed, StageTwoAllReducesBucketsAndGathersAtTheEnd) {
  EXPECT_EQ(DeepSpeedCollectives("2", {"reduce_bucket_size=5000"}),
            (std::vector<std::string>{"all_reduce 8220", "all_reduce 8206", "all_reduce 8240",
                                      "all_reduce 2000", "all_reduce 4", "all_gather 26688"}));
}

// Stage 1 without overlap: after backward, in registration order 1000, 24, 4096, 7, ...: {1000,
// 24}, {4096, 7}, {4096, 7}, {4096, 7}; 5120 and 8199 elements would be too many.
TEST(DeepSpeed, StageOneReducesInRegistrationOrder) {
  EXPECT_EQ(DeepSpeedCollectives("1", {"reduce_bucket_size=5000"}),
            (std::vector<std::string>{"all_reduce 2048", "all_reduce 8206", "all_reduce 8206",
                                      "all_reduce 8206", "all_reduce 4", "all_gather 26688"}));
}

// Tensors of 7 stay gathered. 'first' is gathered as (125 + 3) x 8 elements, blocks as 4096, and
// again in backward without reuse. One bucket takes all gradients: (128 + 3 x 513) x 8 elements.
// Then come the norm and three small tensors of 8 elements each.
TEST(DeepSpeed, StageThreeGathersModulesForwardAndBackward) {
  const std::vector<std::string> gathers = {"all_gather 2048", "all_gather 8192", "all_gather 8192",
                                            "all_gather 8192"};
  const std::vector<std::string> step = {"reduce_scatter 26672", "all_reduce 4", "all_gather 16",
                                         "all_gather 16", "all_gather 16"};
  std::vector<std::string> expected = gathers;
  expected.insert(expected.end(), gathers.rbegin(), gathers.rend());
  expected.insert(expected.end(), step.begin(), step.end());
  EXPECT_EQ(
      DeepSpeedCollectives("3", {"stage3_param_persistence_threshold=10",
                                 "stage3_prefetch_bucket_size=0", "stage3_max_reuse_distance=0"}),
      expected);
  // By default nothing this small is freed before it is used again.
  expected = gathers;
  expected.insert(expected.end(), step.begin(), step.end());
  EXPECT_EQ(DeepSpeedCollectives(
                "3", {"stage3_param_persistence_threshold=10", "stage3_prefetch_bucket_size=0"}),
            expected);
}

// Groups of four ranks share a second copy, from which backward gathers.
TEST(DeepSpeed, SecondaryPartitionsAreGatheredFromFewRanks) {
  const auto program = Lowered(
      kLayers,
      {"data_parallel.framework=deepspeed", "data_parallel.zero_stage=3",
       "data_parallel.deepspeed={zero_hpz_partition_size: 4, stage3_prefetch_bucket_size: 0, "
       "stage3_max_reuse_distance: 0, stage3_param_persistence_threshold: 10}"});
  std::vector<std::size_t> ranks;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const program::Collective& collective = program.collectives[instruction.operand];
    if (collective.kind != CollectiveKind::kAllGather || collective.bytes < Bytes(100)) continue;
    ranks.push_back(
        program.groups[program.communicators[collective.communicator].group].ranks.size());
  }
  EXPECT_EQ(ranks, (std::vector<std::size_t>{8, 8, 8, 8, 4, 4, 4, 4}));
}

}  // namespace
}  // namespace stepcast::lowering
