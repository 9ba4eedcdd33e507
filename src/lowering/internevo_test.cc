#include "src/lowering/internevo.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

program::Program Lowered(const std::string& layers, const std::string& data_parallel, int rank = 0,
                         int accumulation = 1) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model: {{kind: layers, layers: [{}], optimizer_step: 1 ms}}
cluster:
  topology: {{kind: flat, devices: 4, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: {}, precision: bf16,
            optimizer: adamw}}
data_parallel: {{framework: internevo, zero_stage: 1, {}}}
)",
                                       layers, accumulation, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  program::Program program = LowerInternEvo(*scenario, {.rank = rank});
  EXPECT_TRUE(program::Validate(program).empty());
  return program;
}

constexpr const char* kFourLayers =
    "{name: a, repeat: 4, parameters: [1000, 10], forward: 1 ms, backward: 2 ms, activation: 0 B}";

// The sizes of a kind of collective over a communicator, in order.
std::vector<Bytes> Sizes(const program::Program& program, CollectiveKind kind,
                         program::Index communicator) {
  std::vector<Bytes> sizes;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const program::Collective& collective = program.collectives[instruction.operand];
    if (collective.kind == kind && collective.communicator == communicator) {
      sizes.push_back(collective.bytes);
    }
  }
  return sizes;
}

Bytes Sum(const program::Program& program, program::Category category) {
  Bytes sum;
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.category == category) sum += buffer.size;
  }
  return sum;
}

constexpr program::Index kData = 0, kShard = 1;

// Four tensors of 1,000 elements and four of 10: one of each for every rank. One bucket holds all
// 4,040 gradients; four broadcasts of 1,010 parameters follow the update.
TEST(InternEvo, DealsTensorsOutAndBroadcastsThem) {
  const auto program = Lowered(kFourLayers, "overlap: true");
  EXPECT_EQ(Sizes(program, CollectiveKind::kAllReduce, kData), std::vector<Bytes>{Bytes(2 * 4040)});
  EXPECT_EQ(Sizes(program, CollectiveKind::kAllReduce, kShard), std::vector<Bytes>{Bytes(4)});
  EXPECT_EQ(Sizes(program, CollectiveKind::kBroadcast, kShard),
            std::vector<Bytes>(4, Bytes(2 * 1010)));
  EXPECT_EQ(Sum(program, program::Category::kParameter), Bytes(2 * 4040));
  EXPECT_EQ(Sum(program, program::Category::kOptimizer), Bytes(12 * 1010));
}

// A bucket of 2,500 elements takes 1,010 + 1,010 gradients; the tensor that would exceed it sends
// it off. The order is that of the backward: 10, 1000, 10, 1000, ...
TEST(InternEvo, SendsABucketOffBeforeItWouldOverflow) {
  const auto program = Lowered(kFourLayers, "bucket_size: 5000 B");
  const std::vector<Bytes> sizes = Sizes(program, CollectiveKind::kAllReduce, kData);
  ASSERT_EQ(sizes.size(), 2u);
  EXPECT_EQ(sizes[0] + sizes[1], Bytes(2 * 4040));
  EXPECT_LE(sizes[0], Bytes(5000));
  EXPECT_GT(sizes[0] + Bytes(2 * 1000), Bytes(5000));
}

// Gradients add up where they are; only the last micro-batch reduces them.
TEST(InternEvo, ReducesOnceAStep) {
  const auto program = Lowered(kFourLayers, "overlap: true", 0, 3);
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    EXPECT_EQ(instruction.micro_batch, 2);
  }
}

// Groups of two: gradients are reduced over all four ranks, parameters stay in the group, and a
// rank keeps the states of half of them.
TEST(InternEvo, HybridGroupsReduceOverAllAndBroadcastInside) {
  const auto program = Lowered(kFourLayers, "shard_group_size: 2", 3);
  ASSERT_EQ(program.groups.size(), 2u);
  EXPECT_EQ(program.groups[kData].ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(program.groups[kShard].ranks, (std::vector<int>{2, 3}));
  EXPECT_EQ(Sizes(program, CollectiveKind::kAllReduce, kData), std::vector<Bytes>{Bytes(2 * 4040)});
  EXPECT_EQ(Sizes(program, CollectiveKind::kBroadcast, kShard),
            std::vector<Bytes>(2, Bytes(2 * 2020)));
  EXPECT_EQ(Sum(program, program::Category::kOptimizer), Bytes(12 * 2020));
}

// Two tensors for four ranks: two broadcasts, and the last rank updates nothing.
TEST(InternEvo, RanksWithoutTensorsTakePart) {
  const char* two =
      "{name: a, repeat: 2, parameters: [1000], forward: 1 ms, backward: 2 ms, activation: 0 B}";
  const auto program = Lowered(two, "overlap: false", 3);
  EXPECT_EQ(Sizes(program, CollectiveKind::kBroadcast, kShard),
            std::vector<Bytes>(2, Bytes(2 * 1000)));
  EXPECT_EQ(Sum(program, program::Category::kOptimizer), Bytes(0));
  EXPECT_EQ(Sizes(Lowered(two, "overlap: false", 0), CollectiveKind::kBroadcast, kShard),
            std::vector<Bytes>(2, Bytes(2 * 1000)));
}

// Two stages of two layers, two ranks each: what all ranks of the model know of the norm comes
// before what those of a stage do. A stage deals its own tensors out, and reduces once.
TEST(InternEvo, StagesAgreeOnTheNorm) {
  const auto program = Lowered(kFourLayers, "overlap: true}\nparallelism: {pipeline: 2", 0, 3);
  std::vector<std::string> scalars;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const program::Collective& collective = program.collectives[instruction.operand];
    if (collective.bytes != Bytes(4)) continue;
    scalars.push_back(program.groups[program.communicators[collective.communicator].group].name);
  }
  EXPECT_EQ(scalars, (std::vector<std::string>{"model", "data"}));
  EXPECT_EQ(Sizes(program, CollectiveKind::kAllReduce, kData), std::vector<Bytes>{Bytes(2 * 2020)});
  EXPECT_EQ(Sizes(program, CollectiveKind::kBroadcast, kShard),
            std::vector<Bytes>(2, Bytes(2 * 1010)));
}

}  // namespace
}  // namespace stepcast::lowering
