#include "src/runtime/cuda/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/program/test_program.h"

namespace stepcast::runtime::cuda {
namespace {

using program::Effect;
using program::EffectKind;
using program::Index;
using program::kNone;
using program::TestProgram;

Index AddKernel(TestProgram& program, Kernel kernel) {
  program.program().kernels.push_back(std::move(kernel));
  return static_cast<Index>(program.program().kernels.size() - 1);
}

Kernel Gemm(std::string name, std::int64_t m, std::int64_t n, std::int64_t k,
            DataType type = DataType::kBf16) {
  return {.name = std::move(name),
          .kind = KernelKind::kGemm,
          .data_type = type,
          .m = m,
          .n = n,
          .k = k,
          .flops = 2 * m * n * k,
          .read = BytesOf(m * k + k * n, type),
          .written = BytesOf(m * n, type == DataType::kFp8 ? DataType::kBf16 : type)};
}

Kernel Memory(std::int64_t read, std::int64_t written) {
  return {.name = "norm",
          .kind = KernelKind::kMemoryBound,
          .read = Bytes(read),
          .written = Bytes(written)};
}

// The kernel of a causal attention core as lowering makes it.
Kernel Core(bool backward, std::int64_t sequences, std::int64_t s, std::int64_t heads,
            std::int64_t key_heads, std::int64_t d, std::int64_t e = 2) {
  const std::int64_t rows = sequences * s * heads;
  const std::int64_t operands = rows * d * e + 2 * sequences * s * key_heads * d * e;
  Kernel kernel{.name = "core",
                .kind = backward ? KernelKind::kAttentionGradient : KernelKind::kAttention,
                .data_type = e == 4 ? DataType::kFp32 : DataType::kBf16,
                .batch = sequences * heads,
                .m = s,
                .n = s,
                .k = d,
                .key_heads = sequences * key_heads,
                .flops = (backward ? 5 : 2) * rows * d * s};
  if (backward) {
    kernel.read = Bytes(operands + 2 * rows * d * e + 8 * rows + 4 * rows * d);
    kernel.written = Bytes(operands + 4 * rows * d);
  } else {
    kernel.read = Bytes(operands);
    kernel.written = Bytes(rows * d * e + 4 * rows);
  }
  return kernel;
}

// Attaches effects to the program's last step instruction; earlier instructions have none.
void AddEffects(program::Program& program, std::vector<Effect> effects) {
  auto& flow = program.data_flow;
  flow.first.resize(program.step.size(), static_cast<Index>(flow.effects.size()));
  for (Effect& effect : effects) flow.effects.push_back(effect);
  flow.first.push_back(static_cast<Index>(flow.effects.size()));
}

TEST(LaunchPlan, KernelsTellHowOperandsLie) {
  TestProgram program(1);
  program.Step();
  for (const ProductLayout layout : kProductLayouts) {
    Kernel kernel = Gemm("fc", 8, 16, 32);
    kernel.layout = layout;
    program.Run(0, AddKernel(program, kernel));
  }
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  ASSERT_EQ(plan.products.size(), 3u);
  EXPECT_EQ(plan.products[0].layout, ProductLayout::kForward);
  EXPECT_EQ(plan.products[1].layout, ProductLayout::kInputGradient);
  EXPECT_EQ(plan.products[2].layout, ProductLayout::kWeightGradient);
  EXPECT_TRUE(plan.multiplies[0]);
}

TEST(LaunchPlan, EqualProductsAreSearchedOnce) {
  TestProgram program(1);
  program.Step();
  for (int layer = 0; layer < 3; ++layer) {
    program.Run(0, AddKernel(program, Gemm("fc" + std::to_string(layer), 8, 16, 32)));
  }
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.products.size(), 1u);
  EXPECT_EQ(plan.step[2].product, 0u);
  // Each product has its own operands: 8 x 32 and 32 x 16 numbers of 2 bytes are 512 and 1024
  // bytes.
  EXPECT_EQ(plan.step[0].second_operand, Bytes(512));
  EXPECT_EQ(plan.step[1].first_operand, Bytes(1536));
  EXPECT_EQ(plan.inputs[static_cast<int>(DataType::kBf16)], Bytes(3 * 1536));
}

TEST(LaunchPlan, AWeightGradientIsWrittenWhereTheProgramHasIt) {
  TestProgram program(1);
  const Index gradient = program.AddBuffer("gradient", KiB(4), program::Category::kGradient);
  program.Step().Run(0, AddKernel(program, Gemm("fc.wgrad", 16, 32, 64)));
  const Effect effect{.kind = EffectKind::kGradient,
                      .add = true,
                      .target = {gradient, Bytes(48), DataType::kFp32},
                      .elements = 16 * 32};
  AddEffects(program.program(), {effect});
  const LaunchPlan computed = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(computed.step[0].product_effect, 0u);
  EXPECT_EQ(computed.products[0].output, DataType::kFp32);
  EXPECT_TRUE(computed.products[0].add);
  EXPECT_EQ(computed.products[0].output_alignment, 16);  // 48 = 3 x 16
  EXPECT_EQ(computed.outputs[0], Bytes(0));
  // A product does not compute small integers, so it writes elsewhere.
  const LaunchPlan integers = MakeLaunchPlan(program.program(), GradientRule::kSmallIntegers);
  EXPECT_EQ(integers.step[0].product_effect, kNone);
  EXPECT_EQ(integers.outputs[0], Bytes(16 * 32 * 2));
}

TEST(LaunchPlan, AGradientOfAnotherShapeIsNotTheProducts) {
  TestProgram program(1);
  const Index gradient = program.AddBuffer("gradient", KiB(4), program::Category::kGradient);
  program.Step().Run(0, AddKernel(program, Gemm("fc.wgrad", 16, 32, 64)));
  AddEffects(program.program(), {{.kind = EffectKind::kGradient,
                                  .target = {gradient, Bytes(0), DataType::kBf16},
                                  .elements = 16}});
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.step[0].product_effect, kNone);
}

TEST(LaunchPlan, EffectsArePartOfWhatAMemoryBoundKernelMoves) {
  TestProgram program(1);
  const Index from = program.AddBuffer("from", KiB(4));
  const Index to = program.AddBuffer("to", KiB(4));
  program.Step().Run(0, AddKernel(program, Memory(5000, 3000)));
  // 1000 FP32 numbers become bf16: 4000 bytes read, 2000 written.
  AddEffects(program.program(), {{.kind = EffectKind::kMove,
                                  .target = {to, Bytes(0), DataType::kBf16},
                                  .source = {from, Bytes(0), DataType::kFp32},
                                  .elements = 1000,
                                  .block = 1000}});
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.step[0].read, Bytes(1000));
  EXPECT_EQ(plan.step[0].written, Bytes(1000));
}

TEST(LaunchPlan, AFusedUpdateMovesNothingElse) {
  TestProgram program(1);
  const Index all = program.AddBuffer("all", KiB(64));
  // AdamW on bf16 parameters: reads master, two moments and a bf16 gradient, 14 bytes an element;
  // writes master, moments and parameter, 14 bytes.
  Kernel update = Memory(14 * 100, 14 * 100);
  update.kind = KernelKind::kOptimizer;
  program.Step().Run(0, AddKernel(program, update));
  AddEffects(program.program(), {{.kind = EffectKind::kUpdate,
                                  .target = {all, Bytes(0), DataType::kBf16},
                                  .source = {all, Bytes(512), DataType::kBf16},
                                  .states = {all, Bytes(1024), DataType::kFp32},
                                  .state_stride = 100,
                                  .elements = 100}});
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.step[0].read, Bytes(0));
  EXPECT_EQ(plan.step[0].written, Bytes(0));
}

TEST(LaunchPlan, AChainOfOptimizerKernelsMovesWhatItShould) {
  TestProgram program(1);
  const Index all = program.AddBuffer("all", KiB(64));
  program.Step();
  // 100 FP32 parameters. Two kernels read 8 and write 4 bytes for each; the third one has the
  // update. The update reads parameter, gradient and two moments, 16 bytes, and writes 12, but its
  // kernel states 12 and 4. It reads 400 bytes more and writes 800 more.
  std::vector<std::pair<int, int>> moved = {{8, 4}, {8, 4}, {12, 4}};
  for (const auto& [read, written] : moved) {
    Kernel kernel = Memory(read * 100, written * 100);
    kernel.kind = KernelKind::kOptimizer;
    program.Run(0, AddKernel(program, kernel));
  }
  AddEffects(program.program(), {{.kind = EffectKind::kUpdate,
                                  .target = {all, Bytes(0), DataType::kFp32},
                                  .source = {all, Bytes(512), DataType::kFp32},
                                  .states = {all, Bytes(1024), DataType::kFp32},
                                  .state_stride = 100,
                                  .elements = 100}});
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.step[2].read, Bytes(0));
  EXPECT_EQ(plan.step[2].written, Bytes(0));
  EXPECT_EQ(plan.step[1].read, Bytes(400));
  EXPECT_EQ(plan.step[1].written, Bytes(0));
  EXPECT_EQ(plan.step[0].read, Bytes(800));
  EXPECT_EQ(plan.step[0].written, Bytes(0));
}

TEST(LaunchPlan, TrafficBeyondTheArenaWraps) {
  TestProgram program(1);
  program.Step().Run(0, AddKernel(program, Memory(GiB(3).count(), GiB(1).count())));
  program.Run(0, AddKernel(program, Memory(KiB(1).count(), 0)));
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.inputs[static_cast<int>(plan.traffic_type)], kArenaLimit);
  EXPECT_EQ(plan.outputs[0], kArenaLimit);
  EXPECT_EQ(plan.step[0].read, GiB(3));
}

TEST(LaunchPlan, CollectivesWithoutEffectsUseSyntheticKernels) {
  TestProgram program(2);
  const Index data = program.AddCommunicator("data", {0, 1});
  const Index all_reduce = program.AddCollective(CollectiveKind::kAllReduce, data, KiB(8));
  program.Step().Communicate(1, all_reduce);
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.step[0].read, KiB(8));
  EXPECT_EQ(plan.outputs[1], KiB(8));
  EXPECT_EQ(plan.outputs[0], Bytes(0));
}

TEST(LaunchPlan, CollectivesOfAnotherTypeAreStaged) {
  TestProgram program(1);
  const Index data = program.AddCommunicator("data", {0, 1});
  const Index buffer = program.AddBuffer("gradients", KiB(4));
  // 1000 bf16 numbers are reduced and scattered; they are kept as FP32. Sent: 2000 bytes, in the
  // arena 2048; received: 500 of them, 1000 bytes, in the arena 1024.
  program.Step().Communicate(
      0, program.AddCollective(CollectiveKind::kReduceScatter, data, Bytes(2000), DataType::kBf16));
  AddEffects(program.program(), {{.kind = EffectKind::kCollective,
                                  .target = {buffer, Bytes(0), DataType::kFp32},
                                  .source = {buffer, Bytes(0), DataType::kFp32},
                                  .elements = 1000}});
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  EXPECT_EQ(plan.step[0].read, Bytes(0));
  EXPECT_EQ(plan.step[0].staging, Bytes(0));
  EXPECT_EQ(plan.outputs[0], Bytes(2048 + 1024));
}

TEST(LaunchPlan, AttentionWithoutAFusedKernelIsAsMuchMultiplication) {
  TestProgram program(1);
  program.Step().Run(0, AddKernel(program, Core(true, 2, 512, 12, 12, 64, 4)));
  const LaunchPlan plan = MakeLaunchPlan(program.program(), GradientRule::kComputed);
  ASSERT_EQ(plan.products.size(), 1u);
  EXPECT_EQ(plan.step[0].attention, kNone);
  EXPECT_EQ(plan.step[0].times, 5);
  const Product& product = plan.products[0];
  EXPECT_EQ(5 * 2 * product.batch * product.m * product.n * product.k,
            program.program().kernels[0].flops);
  EXPECT_EQ(product.input, DataType::kFp32);
}

// The only operation of a program with this kernel.
struct Only {
  LaunchPlan plan;
  Work work;
};
Only PlanOf(const Kernel& kernel) {
  TestProgram program(1);
  program.Step().Run(0, AddKernel(program, kernel));
  Only only{.plan = MakeLaunchPlan(program.program(), GradientRule::kComputed), .work = {}};
  only.work = only.plan.step.back();
  return only;
}

TEST(LaunchPlanOfAttention, HasTheShapesOfModels) {
  // GPT-2 with 4 sequences of 1024; Llama 3.1 8B: 32 heads of 128, 8 for keys and values.
  for (const bool backward : {false, true}) {
    EXPECT_THAT(PlanOf(Core(backward, 4, 1024, 12, 12, 64)).plan.attentions,
                testing::ElementsAre(Attention{backward, DataType::kBf16, 64, 1024, 48, 48, true}));
    EXPECT_THAT(PlanOf(Core(backward, 1, 8192, 32, 8, 128)).plan.attentions,
                testing::ElementsAre(Attention{backward, DataType::kBf16, 128, 8192, 32, 8, true}));
  }
}

// Heads of 80 (GPT-3 2.7B) have no fused kernel, nor do FP32 or windows.
TEST(LaunchPlanOfAttention, IsProductsOfTheSameWorkWhereNoneIsFused) {
  Kernel window = Core(true, 1, 1024, 32, 8, 128);
  window.n = 512;
  window.flops = window.flops * 3 / 4;
  for (const Kernel& kernel :
       {Core(false, 2, 2048, 32, 32, 80), Core(false, 2, 2048, 12, 12, 64, 4), window}) {
    const Only only = PlanOf(kernel);
    EXPECT_TRUE(only.plan.attentions.empty());
    ASSERT_EQ(only.plan.products.size(), 1u);
    const Product& product = only.plan.products[0];
    EXPECT_EQ(only.work.times * 2 * product.batch * product.m * product.n * product.k,
              kernel.flops);
  }
}

// For any shape, the operands fit into the kernel's bytes.
RC_GTEST_PROP(AttentionLaws, BytesAreKept, ()) {
  const auto sequences = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto s = *rc::gen::inRange<std::int64_t>(1, 65) * 64;
  const auto key_heads = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto heads = key_heads * *rc::gen::inRange<std::int64_t>(1, 5);
  const auto d = *rc::gen::element<std::int64_t>(64, 128);
  const bool backward = *rc::gen::arbitrary<bool>();
  const Kernel kernel = Core(backward, sequences, s, heads, key_heads, d);
  const Attention attention = PlanOf(kernel).plan.attentions.at(0);
  // Apart from rounding, stand-ins are no larger than the bytes that the kernel reads and writes.
  RC_ASSERT(InputOf(attention) <= kernel.read + Bytes(6 * 256));
  RC_ASSERT(OutputOf(attention) <= kernel.written + Bytes(4 * 256));
}

}  // namespace
}  // namespace stepcast::runtime::cuda
