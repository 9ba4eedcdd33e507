#include "src/lowering/gradient_clipping.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

// Eight tensors with 4040 elements in all, on four ranks.
program::Program Lowered(const std::string& data_parallel, const std::string& torch = "2.14",
                         const std::string& clipping = "1.0") {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {{name: a, repeat: 4, parameters: [1000, 10], forward: 1 ms, backward: 2 ms, activation: 0 B}}
  optimizer_step: 1 ms
cluster:
  topology: {{kind: flat, devices: 4, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
software: {{torch: "{}"}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
            optimizer: adamw, gradient_clipping: {}}}
data_parallel: {{{}}}
)",
                                       torch, clipping, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  program::Program program = LowerRank(*scenario);
  EXPECT_TRUE(program::Validate(program).empty()) << data_parallel;
  return program;
}

// The step's kernels with a given name: number and bytes.
struct Ran {
  int times = 0;
  Bytes read, written;
};
Ran Kernels(const program::Program& program, const std::string& name) {
  Ran ran;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kKernel) continue;
    const Kernel& kernel = program.kernels[instruction.operand];
    if (kernel.name != name) continue;
    ++ran.times;
    ran.read += kernel.read;
    ran.written += kernel.written;
  }
  return ran;
}

int Scalars(const program::Program& program) {
  int count = 0;
  for (const program::Instruction& instruction : program.step) {
    count += instruction.opcode == Opcode::kCollective &&
             program.collectives[instruction.operand].bytes == Bytes(4);
  }
  return count;
}

int HostWaits(const program::Program& program) {
  int count = 0;
  for (const program::Instruction& instruction : program.step) {
    count += instruction.opcode == Opcode::kHostWaitEvent;
  }
  return count;
}

// Every rank has all 4040 bf16 gradients: read once for the norms, which are 4 bytes a tensor, and
// read and written once for the product. The host does not wait.
TEST(GradientClipping, DdpTakesNormsOfAllTensorsInOneKernel) {
  const auto program = Lowered("zero_stage: 0, framework: ddp");
  EXPECT_EQ(Kernels(program, "multi_tensor_norm").times, 1);
  EXPECT_EQ(Kernels(program, "multi_tensor_norm").read, Bytes(8080));
  EXPECT_EQ(Kernels(program, "multi_tensor_norm").written, Bytes(8 * 4));
  EXPECT_EQ(Kernels(program, "multi_tensor_clip").times, 1);
  EXPECT_EQ(Kernels(program, "multi_tensor_clip").read, Bytes(8080));
  EXPECT_EQ(Kernels(program, "multi_tensor_clip").written, Bytes(8080));
  EXPECT_EQ(Scalars(program), 0);
  EXPECT_EQ(HostWaits(program), 0);
}

TEST(GradientClipping, BeforeTorchTwoDdpTakesNormsOneByOne) {
  const auto program = Lowered("zero_stage: 0, framework: ddp", "1.13");
  EXPECT_EQ(Kernels(program, "norm").times, 8);
  EXPECT_EQ(Kernels(program, "norm").read, Bytes(8080));
  EXPECT_EQ(Kernels(program, "clip_gradient").times, 8);
  EXPECT_EQ(Kernels(program, "clip_gradient").written, Bytes(8080));
}

// A rank has 250 rows of every 1000 and, padded, 3 of every 10: 4 x 253 elements.
TEST(GradientClipping, Fsdp2AddsUpOverTheRanks) {
  const auto program = Lowered("zero_stage: 3, framework: fsdp2");
  EXPECT_EQ(Kernels(program, "multi_tensor_norm").read, Bytes(2 * 4 * 253));
  EXPECT_EQ(Kernels(program, "multi_tensor_clip").read, Bytes(2 * 4 * 253));
  EXPECT_EQ(Scalars(program), 1);
  EXPECT_EQ(HostWaits(program),
            HostWaits(Lowered("zero_stage: 3, framework: fsdp2", "2.14", "none")));
}

// Flat parameters of 1010 elements, padded to 1012: four of 253. The host reads the norm only
// before torch 2.0.
TEST(GradientClipping, Fsdp1ClipsFlatParametersOneByOne) {
  const std::string plan = "zero_stage: 3, framework: fsdp1, limit_all_gathers: false";
  const auto program = Lowered(plan);
  EXPECT_EQ(Kernels(program, "norm").times, 4);
  EXPECT_EQ(Kernels(program, "norm").read, Bytes(2 * 4 * 253));
  EXPECT_EQ(Kernels(program, "clip_gradient").times, 4);
  EXPECT_EQ(Scalars(program), 1);
  EXPECT_EQ(HostWaits(program), 0);
  EXPECT_EQ(HostWaits(Lowered(plan, "1.13")), 1);
}

// Stage 1: from the last tensor on, the starts are multiples of 64: 0, 64, 1088, 1152, 2176, 2240,
// 3264, 3328, so that the end is 4328, padded to 34 x 128 = 4352; a quarter of it, in FP32.
TEST(GradientClipping, MegatronReadsTheNormOnTheHost) {
  const auto sharded = Lowered("zero_stage: 1, framework: megatron");
  EXPECT_EQ(Kernels(sharded, "multi_tensor_norm").read, Bytes(4 * 4352 / 4));
  EXPECT_EQ(Kernels(sharded, "multi_tensor_clip").written, Bytes(4 * 4352 / 4));
  EXPECT_EQ(Scalars(sharded), 1);
  EXPECT_EQ(HostWaits(sharded), 1);
  const auto whole = Lowered("zero_stage: 0, framework: megatron");
  EXPECT_EQ(Kernels(whole, "multi_tensor_norm").read, Bytes(4 * 4040));
  EXPECT_EQ(Scalars(whole), 0);
  EXPECT_EQ(HostWaits(whole), 1);
}

// DeepSpeed always takes the norm and multiplies by one factor; clipping only changes the factor.
TEST(GradientClipping, DeepSpeedClipsWhileItUnscales) {
  for (const char* stage : {"0", "1", "2", "3"}) {
    const std::string plan = fmt::format("zero_stage: {}, framework: deepspeed", stage);
    const auto with = Lowered(plan);
    const auto without = Lowered(plan, "2.14", "none");
    EXPECT_EQ(with.step.size(), without.step.size() + 4) << stage;
    EXPECT_EQ(Kernels(with, "clip_factor").times, 4) << stage;
    EXPECT_EQ(Kernels(with, "unscale_gradients").read, Kernels(without, "unscale_gradients").read);
    EXPECT_EQ(Scalars(with), Scalars(without)) << stage;
  }
}

TEST(GradientClipping, NoneChangesNothing) {
  for (const char* plan : {"zero_stage: 0, framework: ddp", "zero_stage: 2, framework: reference",
                           "zero_stage: 1, framework: megatron"}) {
    const auto program = Lowered(plan, "2.14", "none");
    EXPECT_EQ(Kernels(program, "multi_tensor_norm").times, 0) << plan;
    EXPECT_EQ(Kernels(program, "multi_tensor_clip").times, 0) << plan;
  }
}

}  // namespace
}  // namespace stepcast::lowering
