#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/lowering/step_parts.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

// The sizes of the workspaces in a step of a small GPT on one device, in order.
std::vector<Bytes> Workspaces(const std::string& gpu, const std::string& framework,
                              const std::string& training) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model: {{kind: transformer, name: small, family: gpt2, hidden_size: 64, num_hidden_layers: 1,
         num_attention_heads: 2, intermediate_size: 256, vocab_size: 128, max_position_embeddings: 8}}
cluster: {{topology: {{kind: flat, devices: 1, gpu: {}}}}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
            optimizer: adamw, {}}}
data_parallel: {{zero_stage: 0, framework: {}}}
)",
                                       gpu, training, framework);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  std::vector<Bytes> sizes;
  const program::Program program = LowerRank(*scenario);
  for (const program::Buffer& buffer : program.buffers) {
    if (program.NameOf(buffer).find("orkspace") != std::string::npos) sizes.push_back(buffer.size);
  }
  return sizes;
}

constexpr Bytes kMiB = Bytes(1 << 20);
// PyTorch's default before Hopper: CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8, 2 x 4096 + 8 x 16 KiB.
constexpr Bytes kAmpere = Bytes((2 * 4096 + 8 * 16) << 10);

TEST(FrameworkMemory, ForwardAndBackwardHaveAWorkspaceEach) {
  EXPECT_EQ(Workspaces("a100-sxm-80gb", "ddp", "norm: fused"),
            (std::vector<Bytes>{kAmpere, kAmpere}));
  EXPECT_EQ(Workspaces("h100-sxm", "ddp", "norm: fused"),
            (std::vector<Bytes>{32 * kMiB, 32 * kMiB}));
}

TEST(FrameworkMemory, TransformerEngineHasItsOwn) {
  const std::string norm = "norm: transformer_engine";
  EXPECT_EQ(Workspaces("a100-sxm-80gb", "megatron", norm),
            (std::vector<Bytes>{kAmpere, kAmpere, 4 * kMiB}));
  EXPECT_EQ(Workspaces("h100-sxm", "megatron", norm),
            (std::vector<Bytes>{32 * kMiB, 32 * kMiB, 32 * kMiB}));
}

TEST(FrameworkMemory, DeterministicOnesHaveEightBuffersOf4MiB) {
  EXPECT_EQ(Workspaces("a100-sxm-80gb", "megatron", "deterministic: true"),
            (std::vector<Bytes>{32 * kMiB, 32 * kMiB}));
}

TEST(FrameworkMemory, TheTextbookHasNone) {
  EXPECT_TRUE(Workspaces("h100-sxm", "reference", "norm: fused").empty());
}

}  // namespace
}  // namespace stepcast::lowering
