#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/lowering/passes.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

struct Layout {
  std::string training = "precision: fp8";
  std::string parallelism = "tensor: 2, sequence_parallel: true, pipeline: 2";
  int devices = 8;
  int micro_batches = 3;
  std::string framework = "megatron";
};

// Four blocks of four linear layers each.
program::Program Lowered(const Layout& layout) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model: {{kind: transformer, name: small, family: gpt2, hidden_size: 64, num_hidden_layers: 4,
  num_attention_heads: 4, intermediate_size: 256, vocab_size: 512, max_position_embeddings: 32}}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 32, micro_batch_size: 1, gradient_accumulation: {}, optimizer: adamw,
  compile: true, {}}}
data_parallel: {{zero_stage: 1, framework: {}}}
parallelism: {{{}}}
)",
                                       layout.devices, layout.micro_batches, layout.training,
                                       layout.framework, layout.parallelism);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  program::Program program = LowerRank(*scenario, {.data_flow = true});
  EXPECT_TRUE(program::Validate(program).empty());
  return program;
}

// The scale updates of a step and messages to other stages, in host order: "F96" is an all-reduce
// of 96 bytes in the forward, "B" in the backward, "u" the kernel after it, ">" a message.
std::string Told(const program::Program& program, bool messages = false) {
  std::string told;
  for (const program::Instruction& instruction : program.step) {
    switch (instruction.opcode) {
      case Opcode::kCollective: {
        const program::Collective& collective = program.collectives[instruction.operand];
        const program::Index group = program.communicators[collective.communicator].group;
        if (program.groups[group].name != "fp8 scales") break;
        told += fmt::format("{}{}", instruction.phase == program::Phase::kForward ? "F" : "B",
                            collective.bytes.count());
        break;
      }
      case Opcode::kKernel:
        if (program.kernels[instruction.operand].name == "update_scales") told += "u ";
        break;
      case Opcode::kExchange:
        if (messages) told += "> ";
        break;
      default:
        break;
    }
  }
  return told;
}

// A stage has two blocks of four weights: 8 x 3 numbers of 4 bytes after a forward, 8 x 2 after a
// backward. The 2 x 2 tensor- and data-parallel ranks of a stage agree.
TEST(ScaleUpdatesTest, RanksOfAStageAgreeBehindItsBlocks) {
  const program::Program program = Lowered({});
  EXPECT_EQ(Told(program), "F96u F96u B64u F96u B64u B64u ");
  const auto group = std::find_if(program.groups.begin(), program.groups.end(),
                                  [](const auto& other) { return other.name == "fp8 scales"; });
  ASSERT_NE(group, program.groups.end());
  EXPECT_EQ(group->ranks, (std::vector<int>{0, 1, 2, 3}));
}

// tp_only_amax_red: the two ranks that divide layers.
TEST(ScaleUpdatesTest, MegatronMayLeaveDataParallelRanksOut) {
  const program::Program program = Lowered({.training = "precision: fp8, tp_only_amax_red: true"});
  EXPECT_EQ(Told(program), "F96u F96u B64u F96u B64u B64u ");
  const auto group = std::find_if(program.groups.begin(), program.groups.end(),
                                  [](const auto& other) { return other.name == "fp8 scales"; });
  ASSERT_NE(group, program.groups.end());
  EXPECT_EQ(group->ranks, (std::vector<int>{0, 1}));
}

// The rank's buffer contains all its modules, so each chunk of a virtual stage all-reduces all of
// them.
TEST(ScaleUpdatesTest, EachChunkOfAStageEndsAutocast) {
  const program::Program program =
      Lowered({.parallelism = "pipeline: 2, virtual_stages: 2", .devices = 4, .micro_batches = 2});
  const std::string told = Told(program);
  EXPECT_EQ(std::count(told.begin(), told.end(), 'F'), 4) << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), 'B'), 4) << told;
}

TEST(ScaleUpdatesTest, MessagesToTheNextStageWait) {
  EXPECT_EQ(Told(Lowered({}), true).substr(0, 7), "F96u > ");
}

// A backward for weights updates no scales: its output gradients were cast before.
TEST(ScaleUpdatesTest, BackwardOfWeightsHasNone) {
  const program::Program program = Lowered(
      {.parallelism = "pipeline: 2, schedule: zb_h1", .devices = 2, .framework = "reference"});
  const std::string told = Told(program);
  EXPECT_EQ(std::count(told.begin(), told.end(), 'u'), 6) << told;
}

TEST(ScaleUpdatesTest, OneRankHasNobodyToAgreeWith) {
  EXPECT_EQ(Told(Lowered({.parallelism = "pipeline: 1", .devices = 1})), "u u u u u u ");
}

TEST(ScaleUpdatesTest, OtherScalesAreNotOfTheStepsBefore) {
  for (const char* training : {"precision: bf16", "precision: fp8, fp8_scaling: current"}) {
    EXPECT_EQ(Told(Lowered({.training = training})), "") << training;
  }
}

}  // namespace
}  // namespace stepcast::lowering
