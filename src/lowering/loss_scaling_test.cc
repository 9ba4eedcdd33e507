#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/gradient_clipping.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

// Eight tensors with 4040 elements in all, on four ranks.
program::Program Lowered(const std::string& data_parallel, const std::string& training) {
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
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1,
            optimizer: adamw, {}}}
data_parallel: {{{}}}
)",
                                       training, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  program::Program program = LowerRank(*scenario);
  EXPECT_TRUE(program::Validate(program).empty()) << data_parallel;
  return program;
}

// Bytes of the kernels with one name in a step, and the waits of ranks and host.
struct Moved {
  int kernels = 0;
  Bytes read, written;
  int flags = 0;  // all-reduced
  int host_waits = 0;
};
Moved Count(const program::Program& program, const std::string& name = "unscale_gradients") {
  Moved moved;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode == Opcode::kHostWaitEvent) ++moved.host_waits;
    if (instruction.opcode == Opcode::kCollective) {
      moved.flags += program.collectives[instruction.operand].bytes == Bytes(4);
    }
    if (instruction.opcode != Opcode::kKernel) continue;
    const Kernel& kernel = program.kernels[instruction.operand];
    if (kernel.name != name) continue;
    ++moved.kernels;
    moved.read += kernel.read;
    moved.written += kernel.written;
  }
  return moved;
}

// Adam's FP32 inputs are copied from FP16 main gradients: all 4040 of them, or a quarter of the
// padded 4352 (gradient_clipping_test.cc). Each rank checks only its own part.
TEST(LossScaling, MegatronReadsAndWritesItsMainGradientsAndTheHostWaits) {
  const Moved whole = Count(Lowered("zero_stage: 0, framework: megatron", "precision: fp16"));
  EXPECT_EQ(whole.kernels, 1);
  EXPECT_EQ(whole.read, Bytes(4 * 4040));
  EXPECT_EQ(whole.written, Bytes(4 * 4040));
  EXPECT_EQ(whole.flags, 0);
  EXPECT_EQ(whole.host_waits, 1);
  const Moved sharded = Count(Lowered("zero_stage: 1, framework: megatron", "precision: fp16"));
  EXPECT_EQ(sharded.read, Bytes(4 * 4352 / 4));
  EXPECT_EQ(sharded.flags, 1);
  EXPECT_EQ(sharded.host_waits, 1);
}

TEST(LossScaling, MegatronUnscalesCopiesUnlessItsOptimizerTakesTheGradientsAsTheyAre) {
  const auto copies = Lowered("zero_stage: 0, framework: megatron", "precision: fp16");
  EXPECT_EQ(Count(copies, "copy_gradients").read, Bytes(2 * 4040));
  EXPECT_EQ(Count(copies, "copy_gradients").written, Bytes(4 * 4040));
  const auto none =
      Lowered("zero_stage: 0, framework: megatron, copy_main_gradients: false", "precision: fp16");
  EXPECT_EQ(Count(none, "copy_gradients").kernels, 0);
  EXPECT_EQ(Count(none).read, Bytes(2 * 4040));
  const auto wide =
      Lowered("zero_stage: 0, framework: megatron", "precision: fp16, gradient_dtype: fp32");
  EXPECT_EQ(Count(wide, "copy_gradients").kernels, 0);
}

TEST(LossScaling, ScalesBeforeItClips) {
  const auto program =
      Lowered("zero_stage: 1, framework: megatron", "precision: fp16, gradient_clipping: 1.0");
  const auto at = [&](const char* name) {
    return std::find_if(program.step.begin(), program.step.end(), [&](const auto& instruction) {
      return instruction.opcode == Opcode::kKernel &&
             program.kernels[instruction.operand].name == name;
    });
  };
  EXPECT_LT(at("unscale_gradients"), at("multi_tensor_norm"));
  EXPECT_LT(at("multi_tensor_norm"), program.step.end());
  EXPECT_EQ(Count(program).flags, 2) << "of the check, and of the norm";
  EXPECT_EQ(Count(program).host_waits, 2);
}

// GradScaler's kernel reads and writes FP32 gradients; the host waits unless the optimizer reads
// the flag on the device.
TEST(LossScaling, PyTorchsHostWaitsUnlessTheOptimizerIsFused) {
  const std::string autocast = "precision: fp16, parameter_dtype: fp32, optimizer_implementation: ";
  const Moved fused = Count(Lowered("zero_stage: 0, framework: ddp", autocast + "fused"));
  EXPECT_EQ(fused.read, Bytes(4 * 4040));
  EXPECT_EQ(fused.flags, 0);
  EXPECT_EQ(fused.host_waits, 0);
  const Moved foreach = Count(Lowered("zero_stage: 0, framework: ddp", autocast + "foreach"));
  EXPECT_EQ(foreach.kernels, 1);
  EXPECT_EQ(foreach.host_waits, 1);
  for (const char* framework : {"fsdp1, limit_all_gathers: false", "fsdp2"}) {
    const Moved shared = Count(
        Lowered(fmt::format("zero_stage: 3, framework: {}", framework), autocast + "foreach"));
    EXPECT_EQ(shared.read, Bytes(4 * 4 * 253)) << framework;
    EXPECT_EQ(shared.flags, 1) << framework;
  }
}

TEST(LossScaling, NothingIsScaledOtherwise) {
  for (const char* training : {"precision: bf16", "precision: fp32"}) {
    for (const char* framework : {"ddp", "megatron", "reference"}) {
      EXPECT_EQ(
          Count(Lowered(fmt::format("zero_stage: 0, framework: {}", framework), training)).kernels,
          0)
          << training << ", " << framework;
    }
  }
  EXPECT_EQ(Count(Lowered("zero_stage: 0, framework: ddp", "precision: fp16, master_weights: fp32"))
                .kernels,
            0)
      << "GradScaler refuses gradients in FP16";
}

}  // namespace
}  // namespace stepcast::lowering
