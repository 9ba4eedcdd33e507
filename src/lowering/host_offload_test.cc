#include "src/lowering/host_offload.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

// 16,000 parameters over the 8 GPUs of a node: 2000 per rank, also at stage 3, as both tensors
// divide.
constexpr const char* kScenario = R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 2, parameters: [8000], forward: 1 ms, backward: 2 ms, activation: 0 B}
  optimizer_step: 1 ms
cluster: {topology: topologies/dgx-a100.yaml}
training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: deepspeed, deepspeed: {stage3_param_persistence_threshold: 0}}
)";

scenario::Scenario Loaded(std::vector<std::string> overrides) {
  for (std::string& one : overrides) {
    if (one.starts_with("offload")) one = "data_parallel.deepspeed." + one;
  }
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(kScenario, "test", overrides, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  return *scenario;
}

HostBytes BytesOf(const std::vector<std::string>& overrides) {
  return HostBytesOfNode(Loaded(overrides));
}

TEST(HostBytes, NothingWithoutOffload) {
  const HostBytes bytes = BytesOf({});
  EXPECT_EQ(bytes.memory, Bytes(0));
  EXPECT_EQ(bytes.drives, Bytes(0));
}

// Each of a rank's 2000 elements has 4 (FP32 value) + 8 (moments) + 4 (FP32 gradient) bytes, and 2
// for accumulated gradients (stage 3) or for the updated values on their way back (stage 2).
TEST(HostBytes, OptimizerInMemory) {
  EXPECT_EQ(BytesOf({"offload_optimizer=cpu"}).memory, Bytes(8 * 2000 * 18));
  EXPECT_EQ(BytesOf({"offload_optimizer=cpu", "data_parallel.zero_stage=2"}).memory,
            Bytes(8 * 2000 * 18));
}

// With several micro-batches, stage 2 keeps whole tensors that overlap a rank's part: here one of
// 8000 elements, 2 bytes each.
TEST(HostBytes, StageTwoKeepsGradientsOfSeveralMicroBatches) {
  EXPECT_EQ(BytesOf({"offload_optimizer=cpu", "data_parallel.zero_stage=2",
                     "training.gradient_accumulation=2"})
                .memory,
            Bytes(8 * (2000 * 18 + 8000 * 2)));
}

// The elements of one update are in memory: here all.
TEST(HostBytes, OptimizerOnDrives) {
  const HostBytes bytes = BytesOf({"offload_optimizer=nvme"});
  EXPECT_EQ(bytes.drives, Bytes(8 * 2000 * 16));
  EXPECT_EQ(bytes.memory, Bytes(8 * 2000 * 18));
}

TEST(HostBytes, ParametersInMemory) {
  EXPECT_EQ(BytesOf({"offload_param=cpu"}).memory, Bytes(8 * 2000 * 2));
}

Time GivenTime(const program::Program& program, const std::string& name) {
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name == name) return kernel.given;
  }
  return Time();
}

// 42 bytes an element: FP32 values and moments read and written, 24; the gradient unscaled, 8, and
// read, 4; values read again and written in 16 bits, 6. Eight ranks share 0.43 of 409 GB/s:
// 8 x 2000 x 42 B at 175.87 GB/s. All states and gradients, 16 bytes, come from drives that read 50
// GB/s, and the states, 12, go back at 28 GB/s.
TEST(HostOffload, RanksOfANodeShareItsBandwidth) {
  const auto program = LowerRank(Loaded({"offload_optimizer=nvme"}));
  EXPECT_EQ(GivenTime(program, "cpu_adam"),
            Picoseconds((std::int64_t{8 * 2000 * 42} * 1'000'000'000'000 + 175'869'999'999) /
                        175'870'000'000));
  EXPECT_EQ(GivenTime(program, "nvme_read_states"), Picoseconds(8 * 2000 * 16 * 20));
  EXPECT_EQ(GivenTime(program, "nvme_write_states"),
            Picoseconds((std::int64_t{8 * 2000 * 12} * 1000 + 27) / 28));
}

struct Copied {
  Bytes to_host, to_device;
};
Copied CopiedBy(const program::Program& program) {
  Copied copied;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != program::Opcode::kCopy) continue;
    const program::Copy& copy = program.copies[instruction.operand];
    (copy.direction == program::CopyDirection::kDeviceToHost ? copied.to_host : copied.to_device) +=
        copy.bytes;
  }
  return copied;
}

// The bytes that cross the host link per step of stage 3, in 16-bit elements of the rank's part
// (4000 B): gradients there and back (2), FP32 gradients (2), updated parameters (1).
TEST(HostOffload, CopiesWhatDeepSpeedCopies) {
  const auto program = LowerRank(Loaded({"offload_optimizer=cpu"}));
  const Copied copied = CopiedBy(program);
  EXPECT_EQ(copied.to_host, Bytes(4000 * (1 + 2)));
  EXPECT_EQ(copied.to_device, Bytes(4000 * (1 + 1)));
}

// A single rank gathers nothing. Its two parameters of 16,000 bytes are copied from the host one by
// one: once a step if both may stay until backward has finished, otherwise once per pass.
TEST(HostOffload, OneRankCopiesItsParameters) {
  const auto copied = [](const char* distance) {
    const auto program = LowerRank(Loaded(
        {"cluster={topology: {name: one GPU, node: {gpu: a100-sxm-80gb, devices: {gpu: 1, cpu: 1}, "
         "host: {memory: 1 TiB, memory_bandwidth: 400 GB/s}, links: [{kind: pcie, from: gpu, "
         "to: cpu, latency: 150 ns, bandwidth: 32 GB/s}]}}}",
         "offload_param=cpu", "data_parallel.deepspeed.stage3_prefetch_bucket_size=0",
         std::string("data_parallel.deepspeed.stage3_max_reuse_distance=") + distance}));
    EXPECT_TRUE(program.communicators.empty());
    EXPECT_TRUE(program::Validate(program).empty());
    return CopiedBy(program);
  };
  EXPECT_EQ(copied("1000000").to_device, Bytes(2 * 16'000));
  EXPECT_EQ(copied("0").to_device, Bytes(4 * 16'000));
  // The updated parameters.
  EXPECT_EQ(copied("0").to_host, Bytes(2 * 16'000));
}

scenario::Scenario LoadedFsdp(const char* framework, std::vector<std::string> overrides) {
  std::string text = kScenario;
  const std::size_t at = text.find("data_parallel:");
  text.replace(at, std::string::npos,
               std::string("data_parallel: {zero_stage: 3, cpu_offload: true, framework: ") +
                   framework + "}\n");
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", overrides, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  return *scenario;
}

// A rank's part is 2000 bf16 elements, 4000 B. Both blocks' shards are copied for forward and,
// after resharding, again for backward. The reduced shards go to the host once per micro-batch. The
// device keeps none of them from step to step.
TEST(HostOffload, FsdpCopiesShardsAndGradients) {
  for (const char* framework : {"fsdp1", "fsdp2"}) {
    const auto program = LowerRank(LoadedFsdp(framework, {}));
    const Copied copied = CopiedBy(program);
    EXPECT_EQ(copied.to_device, Bytes(2 * 4000)) << framework;
    EXPECT_EQ(copied.to_host, Bytes(4000)) << framework;
    EXPECT_TRUE(program::Validate(program).empty()) << framework;
    for (const program::Instruction& instruction : program.prologue) {
      if (instruction.opcode != program::Opcode::kAllocate) continue;
      const program::Category category = program.buffers[instruction.operand].category;
      EXPECT_NE(category, program::Category::kParameter) << framework;
      EXPECT_NE(category, program::Category::kOptimizer) << framework;
    }
  }
}

// Torch's AdamW on CPU tensors has 20 operands if run operation by operation. Fused, it has 7:
// values and two moments are read and written, gradients read. Operands have the parameters' 2
// bytes, or 4 with master weights, which also need 6 bytes for the cast to 16 bits.
TEST(HostOffload, TorchUpdatesOnTheHost) {
  const auto time = [](std::int64_t bytes) {
    return Picoseconds((8 * 2000 * bytes * 1'000'000'000'000 + 175'869'999'999) / 175'870'000'000);
  };
  const auto updates = [](const char* framework, const std::vector<std::string>& overrides) {
    return GivenTime(LowerRank(LoadedFsdp(framework, overrides)), "cpu_adam");
  };
  const std::string fused = "training.optimizer_implementation=fused";
  const std::string masters = "training.master_weights=fp32";
  EXPECT_EQ(updates("fsdp2", {}), time(40));
  EXPECT_EQ(updates("fsdp1", {fused}), time(14));
  EXPECT_EQ(updates("fsdp2", {masters}), time(86));
  EXPECT_EQ(updates("fsdp1", {fused, masters}), time(34));
}

// From the second micro-batch on the host adds: three passes over 2 bytes for each block.
TEST(HostOffload, FsdpAddsGradientsUpOnTheHost) {
  const auto program = LowerRank(LoadedFsdp("fsdp2", {"training.gradient_accumulation=2"}));
  EXPECT_EQ(CopiedBy(program).to_host, Bytes(2 * 4000));
  EXPECT_EQ(GivenTime(program, "cpu_accumulate"),
            Picoseconds((std::int64_t{8 * 1000 * 6} * 1'000'000'000'000 + 175'869'999'999) /
                        175'870'000'000));
}

scenario::Scenario LoadedMegatron(const std::vector<std::string>& overrides) {
  std::string text = kScenario;
  const std::size_t at = text.find("data_parallel:");
  text.replace(
      at, std::string::npos,
      "data_parallel: {zero_stage: 1, framework: megatron, optimizer_cpu_offload: true}\n");
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", overrides, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  return *scenario;
}

// A rank's part is 2000 of the 16,000 elements. But buckets end at multiples of 128 x 8 and tensors
// start at multiples of 64, so the fullest rank has 2048. FP32 gradients go to the host, and 16-bit
// values come back.
TEST(HostOffload, MegatronUpdatesOnTheHost) {
  Time serial, overlapped;
  for (const char* overlap : {"false", "true"}) {
    const auto program = LowerRank(
        LoadedMegatron({std::string("data_parallel.overlap_cpu_optimizer_d2h_h2d=") + overlap}));
    EXPECT_TRUE(program::Validate(program).empty()) << overlap;
    const Copied copied = CopiedBy(program);
    EXPECT_EQ(copied.to_host, 2 * copied.to_device) << overlap;
    EXPECT_GE(copied.to_host, Bytes(4 * 2000)) << overlap;
    EXPECT_LE(copied.to_host, Bytes(4 * 2048)) << overlap;
    Time& update = std::string(overlap) == "true" ? overlapped : serial;
    for (const program::HostTask& task : program.host_tasks) update += task.duration;
    for (const program::Instruction& instruction : program.prologue) {
      if (instruction.opcode != program::Opcode::kAllocate) continue;
      EXPECT_NE(program.buffers[instruction.operand].category, program::Category::kOptimizer);
    }
  }
  // 28 bytes an element in FP32 and 6 for the cast, at 0.43 of 409 GB/s for eight ranks; each part
  // is rounded up.
  const std::int64_t least = std::int64_t{8} * 2000 * 34 * 1'000'000'000'000 / 175'870'000'000;
  EXPECT_GE(serial.picoseconds(), least);
  EXPECT_LE(serial.picoseconds(), least * 2048 / 2000 + 1);
  EXPECT_NEAR(overlapped.picoseconds(), serial.picoseconds(), 4);
}

// FP32 values, moments and gradients of a rank's part.
TEST(HostBytes, MegatronsOptimizer) {
  EXPECT_EQ(HostBytesOfNode(LoadedMegatron({})).memory, Bytes(8 * 2000 * 16));
}

// Shards of parameters and gradients, 2 bytes each, and 4 of the optimizer's moments; 12 with FP32
// master weights and moments.
TEST(HostBytes, FsdpOffload) {
  EXPECT_EQ(HostBytesOfNode(LoadedFsdp("fsdp2", {})).memory, Bytes(8 * 2000 * 8));
  EXPECT_EQ(HostBytesOfNode(LoadedFsdp("fsdp2", {"training.master_weights=fp32"})).memory,
            Bytes(8 * 2000 * 16));
}

}  // namespace
}  // namespace stepcast::lowering
