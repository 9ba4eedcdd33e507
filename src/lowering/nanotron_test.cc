#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/framework_steps.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

program::Program Lowered(const std::string& data_parallel, int accumulation = 1) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {{name: a, repeat: 2, parameters: [1000], forward: 1 ms, backward: 2 ms, activation: 0 B}}
  optimizer_step: 1 ms
cluster:
  topology: {{kind: flat, devices: 2, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: {}, precision: bf16,
            optimizer: adamw}}
data_parallel: {{framework: nanotron, {}}}
)",
                                       accumulation, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  if (!scenario) return {};
  program::Program program = LowerNanotron(*scenario, {});
  EXPECT_TRUE(program::Validate(program).empty());
  return program;
}

// Kernels, collectives with what they send, and streams that wait, in issue order.
std::vector<std::string> IssueOrder(const program::Program& program) {
  std::vector<std::string> order;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode == Opcode::kKernel) {
      order.push_back(program.kernels[instruction.operand].name);
    } else if (instruction.opcode == Opcode::kCollective) {
      const program::Collective& collective = program.collectives[instruction.operand];
      order.push_back(fmt::format("{} {}", Name(collective.kind), collective.bytes.count()));
    } else if (instruction.opcode == Opcode::kWaitEvent) {
      order.push_back(fmt::format("{} waits", program.streams[instruction.stream].name));
    }
  }
  return order;
}

Bytes Sum(const program::Program& program, program::Category category) {
  Bytes sum;
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.category == category) sum += buffer.size;
  }
  return sum;
}

using Order = std::vector<std::string>;

// One bucket per tensor. The hook adds a full bucket's gradients to the FP32 gradients and launches
// their all-reduce. After backward, DDP copies its buckets back and waits for the last all-reduce.
TEST(Nanotron, DdpsHookReducesFp32Gradients) {
  const Order order = IssueOrder(Lowered("zero_stage: 0, bucket_size: 0 B"));
  EXPECT_EQ(order,
            (Order{"a.forward", "a.forward", "a.backward", "copy_to_bucket", "add_to_fp32_gradient",
                   "nccl data waits", "all_reduce 4000", "a.backward", "copy_to_bucket",
                   "add_to_fp32_gradient", "nccl data waits", "all_reduce 4000", "copy_from_bucket",
                   "copy_from_bucket", "compute waits", "optimizer", "copy_to_parameters",
                   "copy_to_parameters", "zero_gradients"}));
}

// Only the last micro-batch goes through the hook.
TEST(Nanotron, EarlierMicroBatchesAddUpAfterBackward) {
  const Order order = IssueOrder(Lowered("zero_stage: 0", 2));
  EXPECT_EQ(order, (Order{"a.forward",
                          "a.forward",
                          "a.backward",
                          "a.backward",
                          "add_to_fp32_gradient",
                          "add_to_fp32_gradient",
                          "a.forward",
                          "a.forward",
                          "a.backward",
                          "copy_to_bucket",
                          "a.backward",
                          "copy_to_bucket",
                          "add_to_fp32_gradient",
                          "add_to_fp32_gradient",
                          "nccl data waits",
                          "all_reduce 8000",
                          "copy_from_bucket",
                          "copy_from_bucket",
                          "compute waits",
                          "optimizer",
                          "copy_to_parameters",
                          "copy_to_parameters",
                          "zero_gradients"}));
}

// No DDP: everything is reduced after backward. Each rank updates 500 elements of each tensor and
// copies the two ranks' slices of both tensors to the parameters.
TEST(Nanotron, StageOneReducesAtOnceAndGathersSlices) {
  const Order order = IssueOrder(Lowered("zero_stage: 1"));
  EXPECT_EQ(order, (Order{"a.forward",
                          "a.forward",
                          "a.backward",
                          "a.backward",
                          "add_to_fp32_gradient",
                          "add_to_fp32_gradient",
                          "nccl data waits",
                          "all_reduce 8000",
                          "compute waits",
                          "optimizer",
                          "copy_to_parameters",
                          "copy_to_parameters",
                          "flatten",
                          "flatten",
                          "flatten",
                          "nccl data waits",
                          "all_gather 4000",
                          "compute waits",
                          "copy_from_gathered",
                          "copy_from_gathered",
                          "copy_to_parameters",
                          "copy_to_parameters",
                          "copy_to_parameters",
                          "copy_to_parameters",
                          "zero_gradients"}));
}

// 2,000 parameters of 2 bytes. Gradients exist in 16 bits where backward makes them, in DDP's
// buckets, and in FP32. Master copy and moments have 12 bytes, of which stage 1 keeps half on each
// of 2 ranks.
TEST(Nanotron, KeepsGradientsInFp32BesideDdpsBuckets) {
  const auto whole = Lowered("zero_stage: 0");
  EXPECT_EQ(Sum(whole, program::Category::kParameter), Bytes(2 * 2000));
  EXPECT_EQ(Sum(whole, program::Category::kGradient), Bytes((2 + 2 + 4) * 2000));
  EXPECT_EQ(Sum(whole, program::Category::kOptimizer), Bytes(12 * 2000));
  const auto sharded = Lowered("zero_stage: 1");
  EXPECT_EQ(Sum(sharded, program::Category::kGradient), Bytes((2 + 4) * 2000));
  EXPECT_EQ(Sum(sharded, program::Category::kOptimizer), Bytes(12 * 1000));
}

}  // namespace
}  // namespace stepcast::lowering
