#include "src/lowering/training_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/base/kernel.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Instruction;
using program::Opcode;
using program::Phase;

program::Program Lowered(const std::string& training, const std::string& data_parallel) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model: {{kind: transformer, name: small, family: gpt2, hidden_size: 64, num_hidden_layers: 2,
  num_attention_heads: 2, intermediate_size: 256, vocab_size: 128, max_position_embeddings: 32}}
cluster: {{topology: topologies/dgx-h100.yaml}}
training: {{sequence_length: 32, micro_batch_size: 1, precision: bf16, optimizer: adamw, {}}}
data_parallel: {{{}}}
)",
                                       training, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  program::Program program = LowerRank(*scenario);
  EXPECT_TRUE(program::Validate(program).empty());
  return program;
}

int Count(const program::Program& program, Opcode opcode, Phase phase) {
  return static_cast<int>(
      std::count_if(program.step.begin(), program.step.end(), [&](const Instruction& instruction) {
        return instruction.opcode == opcode && instruction.phase == phase;
      }));
}

// Two micro-batches and two streams: the host waits for both after each forward, each backward and
// the update.
TEST(TrainingStep, TimersThatSynchroniseWaitForEveryStream) {
  const std::string ddp = "zero_stage: 0, framework: ddp";
  const auto free = Lowered("gradient_accumulation: 2", ddp);
  EXPECT_EQ(Count(free, Opcode::kHostWaitEvent, Phase::kForward), 0);
  const auto timed = Lowered("gradient_accumulation: 2, host_waits: phase", ddp);
  ASSERT_EQ(timed.streams.size(), 2u);
  EXPECT_EQ(Count(timed, Opcode::kHostWaitEvent, Phase::kForward), 2 * 2);
  EXPECT_EQ(Count(timed, Opcode::kHostWaitEvent, Phase::kBackward), 2 * 2);
  EXPECT_EQ(Count(timed, Opcode::kHostWaitEvent, Phase::kOptimizer), 2);
  EXPECT_EQ(timed.step.back().opcode, Opcode::kHostWaitEvent);
}

// CUDA_LAUNCH_BLOCKING=1: the host waits for everything that it launches, on every stream.
TEST(TrainingStep, SynchronousLaunchesAreWaitedForOneByOne) {
  for (const std::string framework : {"ddp", "megatron", "fsdp2", "deepspeed"}) {
    const auto blocking = Lowered(
        "gradient_accumulation: 2, host_waits: launch",
        fmt::format("zero_stage: {}, framework: {}", framework == "fsdp2" ? 3 : 0, framework));
    const auto launched = [](const Instruction& instruction) {
      return instruction.opcode == Opcode::kKernel || instruction.opcode == Opcode::kCollective ||
             instruction.opcode == Opcode::kCopy || instruction.opcode == Opcode::kExchange;
    };
    int launches = 0;
    for (std::size_t i = 0; i < blocking.step.size(); ++i) {
      if (!launched(blocking.step[i])) continue;
      ++launches;
      ASSERT_LT(i + 2, blocking.step.size());
      EXPECT_EQ(blocking.step[i + 1].opcode, Opcode::kRecordEvent);
      EXPECT_EQ(blocking.step[i + 1].stream, blocking.step[i].stream);
      EXPECT_EQ(blocking.step[i + 2].opcode, Opcode::kHostWaitEvent);
      EXPECT_EQ(blocking.step[i + 2].operand, blocking.step[i + 1].operand);
    }
    EXPECT_GT(launches, 20) << framework;
  }
}

// The issuer of a phase's kernels: modules in forward and recomputation, autograd in backward, the
// framework in hooks and the update.
std::vector<Issuer> Issuers(const program::Program& program, const std::string& name) {
  std::vector<Issuer> issuers;
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name == name) issuers.push_back(kernel.issuer);
  }
  return issuers;
}

TEST(TrainingStep, KernelsSayWhoseCodeIssuesThem) {
  const std::string megatron = "zero_stage: 0, framework: megatron";
  const auto eager = Lowered("gradient_accumulation: 1, activation_checkpointing: full", megatron);
  EXPECT_EQ(Issuers(eager, "mlp.c_fc"), (std::vector<Issuer>{Issuer::kModule, Issuer::kModule}));
  EXPECT_EQ(Issuers(eager, "mlp.c_fc.wgrad"), std::vector<Issuer>{Issuer::kAutograd});
  EXPECT_EQ(Issuers(eager, "zero_gradients"), std::vector<Issuer>{Issuer::kFramework});
  EXPECT_EQ(Issuers(eager, "fused_adamw"), std::vector<Issuer>{Issuer::kFramework});

  const auto compiled = Lowered("gradient_accumulation: 1, compile: true", megatron);
  EXPECT_EQ(Issuers(compiled, "mlp.c_fc"), std::vector<Issuer>{Issuer::kFramework});
}

}  // namespace
}  // namespace stepcast::lowering
