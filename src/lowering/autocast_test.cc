#include "src/lowering/autocast.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>

#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

program::Program Lowered() {
  static scenario::InputCache cache;
  const std::string text = R"(
stepcast: 1
model: {kind: transformer, name: tiny, family: gpt2, num_hidden_layers: 2, hidden_size: 64,
        num_attention_heads: 4, intermediate_size: 256, vocab_size: 512,
        max_position_embeddings: 32}
cluster:
  topology: {kind: flat, devices: 1, gpu: h100-sxm, link: {latency: 5 us, bandwidth: 25 GB/s}}
training: {sequence_length: 32, micro_batch_size: 2, gradient_accumulation: 1, precision: bf16,
           parameter_dtype: fp32, optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  program::Program program = LowerRank(*scenario);
  EXPECT_TRUE(program::Validate(program).empty());
  return program;
}

// When the copies of a step are allocated and released.
struct Life {
  std::size_t begin = 0, end = 0;
};
std::map<std::string, Life> CopiesOf(const program::Program& program) {
  std::map<std::string, Life> copies;
  for (std::size_t i = 0; i < program.step.size(); ++i) {
    const program::Instruction& instruction = program.step[i];
    if (instruction.opcode != Opcode::kAllocate && instruction.opcode != Opcode::kRelease) continue;
    const std::string name = program.NameOf(program.buffers[instruction.operand]);
    if (name.find("/autocast") == std::string::npos) continue;
    (instruction.opcode == Opcode::kAllocate ? copies[name].begin : copies[name].end) = i;
  }
  return copies;
}

// Each block and the head have matrices (four per block); the head is tied to the embedding. Each
// copy lives from before its layer's forward until the gradient of its weight has been cast. The
// head's is released with its layer, long before the embedding completes that gradient.
TEST(Autocast, CopiesGoOneByOneBehindTheirGradients) {
  const program::Program program = Lowered();
  const std::map<std::string, Life> copies = CopiesOf(program);
  ASSERT_EQ(copies.size(), 9U);
  const auto end_of = [&](const std::string& name) {
    const auto found = copies.find(name + "/autocast");
    EXPECT_NE(found, copies.end()) << name;
    return found == copies.end() ? 0 : found->second.end;
  };
  const auto& step = program.step;
  for (const auto& [name, life] : copies) {
    EXPECT_LT(life.begin, life.end) << name;
    if (name.find("wte") != std::string::npos) continue;
    ASSERT_EQ(step[life.end - 1].opcode, Opcode::kKernel) << name;
    EXPECT_EQ(program.kernels[step[life.end - 1].operand].name, "autocast_gradient") << name;
  }
  // In the order of backward.
  const std::string first = "transformer.h.0.", second = "transformer.h.1.";
  EXPECT_LT(end_of("transformer.wte.weight"), end_of(second + "mlp.c_proj.weight"));
  EXPECT_LT(end_of(second + "mlp.c_proj.weight"), end_of(second + "mlp.c_fc.weight"));
  EXPECT_LT(end_of(second + "mlp.c_fc.weight"), end_of(second + "attn.c_attn.weight"));
  EXPECT_LT(end_of(second + "attn.c_attn.weight"), end_of(first + "mlp.c_proj.weight"));
}

}  // namespace
}  // namespace stepcast::lowering
