#include <gtest/gtest.h>

#include <string>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/framework_steps.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

program::Program Lowered(const std::string& layers, const std::string& data_parallel,
                         int accumulation = 1) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model: {{kind: layers, layers: [{}], optimizer_step: 1 ms}}
cluster:
  topology: {{kind: flat, devices: 4, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: {}, precision: bf16,
            optimizer: adamw}}
data_parallel: {{framework: megatron, {}}}
)",
                                       layers, accumulation, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  program::Program program = LowerMegatron(*scenario, {});
  EXPECT_TRUE(program::Validate(program).empty());
  return program;
}

constexpr const char* kFourLayers =
    "{name: a, repeat: 4, parameters: [1000, 10], forward: 1 ms, backward: 2 ms, activation: 0 B}";

std::vector<Bytes> CollectiveBytes(const program::Program& program, CollectiveKind kind) {
  std::vector<Bytes> bytes;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const program::Collective& collective = program.collectives[instruction.operand];
    if (collective.kind == kind) bytes.push_back(collective.bytes);
  }
  return bytes;
}

Bytes Sum(const program::Program& program, program::Category category) {
  Bytes sum;
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.category == category) sum += buffer.size;
  }
  return sum;
}

// 4 x 1010 parameters in bf16 with fp32 main gradients: 2 + 4 + 12 bytes each, nothing padded.
TEST(Megatron, StageZeroKeepsEighteenBytesAParameter) {
  const auto program = Lowered(kFourLayers, "zero_stage: 0");
  EXPECT_EQ(Sum(program, program::Category::kParameter), Bytes(2 * 4040));
  EXPECT_EQ(Sum(program, program::Category::kGradient), Bytes(4 * 4040));
  EXPECT_EQ(Sum(program, program::Category::kOptimizer), Bytes(12 * 4040));
  EXPECT_EQ(CollectiveBytes(program, CollectiveKind::kAllReduce),
            std::vector<Bytes>{Bytes(4 * 4040)});
}

// In reverse order, aligned to 64: 10 (0..10), 1000 (64..1064), 10 (1088..1098), 1000 (1152..2152),
// 10 (2176..2186), 1000 (2240..3240), 10 (3264..3274), 1000 (3328..4328). A bucket of 8,000 bytes
// holds 2,000 gradients: it closes at 2,152, padded to 2,176 = 17 x 128 = lcm(4, 128) x 17. The
// other half is the same.
TEST(Megatron, TheDistributedOptimizerAlignsParametersAndBuckets) {
  const auto program = Lowered(kFourLayers, "zero_stage: 1, bucket_size: 8000 B");
  const std::vector<Bytes> reduced = {Bytes(4 * 2176), Bytes(4 * 2176)};
  const std::vector<Bytes> gathered = {Bytes(2 * 2176), Bytes(2 * 2176)};
  EXPECT_EQ(CollectiveBytes(program, CollectiveKind::kReduceScatter), reduced);
  EXPECT_EQ(CollectiveBytes(program, CollectiveKind::kAllGather), gathered);
  EXPECT_EQ(Sum(program, program::Category::kOptimizer), Bytes(2 * 12 * 2176 / 4));
}

// Gradients add up where they are; only the last micro-batch's backward communicates.
TEST(Megatron, CommunicatesOnceAStep) {
  const auto program = Lowered(kFourLayers, "zero_stage: 1, bucket_size: 8000 B", 3);
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const bool gather = program.collectives[instruction.operand].kind == CollectiveKind::kAllGather;
    EXPECT_EQ(instruction.micro_batch, gather ? 0 : 2);
    EXPECT_EQ(instruction.phase, gather ? program::Phase::kForward : program::Phase::kBackward);
  }
}

// Without overlap there is one bucket: one collective after the backward, one after the update.
TEST(Megatron, WithoutOverlapThereIsOneBucket) {
  const auto program = Lowered(kFourLayers, "zero_stage: 1, overlap: false");
  EXPECT_EQ(CollectiveBytes(program, CollectiveKind::kReduceScatter).size(), 1u);
  EXPECT_EQ(CollectiveBytes(program, CollectiveKind::kAllGather).size(), 1u);
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const bool gather = program.collectives[instruction.operand].kind == CollectiveKind::kAllGather;
    EXPECT_EQ(instruction.phase, gather ? program::Phase::kOptimizer : program::Phase::kBackward);
  }
}

// Two instances of two ranks: parts are reduced inside, then across.
TEST(Megatron, InstancesReduceTheirPartsAcross) {
  const auto program = Lowered(kFourLayers, "zero_stage: 1, shard_group_size: 2");
  ASSERT_EQ(program.groups.size(), 2u);
  const auto scattered = CollectiveBytes(program, CollectiveKind::kReduceScatter);
  const auto across = CollectiveBytes(program, CollectiveKind::kAllReduce);
  ASSERT_EQ(scattered.size(), 1u);
  ASSERT_EQ(across.size(), 1u);
  EXPECT_EQ(across.front() * 2, scattered.front());
}

}  // namespace
}  // namespace stepcast::lowering
