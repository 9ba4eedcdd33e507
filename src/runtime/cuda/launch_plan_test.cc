#include "src/runtime/cuda/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tests/examples/test_program.h"

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

using program::Effect;
using program::EffectKind;
using program::Index;

Effect Move(Index to, std::int64_t to_byte, Index from, std::int64_t elements,
            std::int64_t block = 0, std::int64_t stride = 0) {
  return {.kind = EffectKind::kMove,
          .target = {to, Bytes(to_byte), DataType::kFp32},
          .source = {from, Bytes(0), DataType::kFp32},
          .elements = elements,
          .block = block == 0 ? elements : block,
          .target_stride = stride,
          .source_stride = block};
}

TEST(FirstBatch, WhatLiesApartIsDoneAtOnce) {
  EXPECT_EQ(FirstBatch({}, true), 0u);
  const std::vector<Effect> effects = {Move(0, 0, 1, 10), Move(0, 40, 2, 10), Move(3, 0, 1, 10)};
  EXPECT_EQ(FirstBatch(effects, true), 3u);
}

TEST(FirstBatch, EndsBeforeWhatReadsOrWritesTheSame) {
  EXPECT_EQ(FirstBatch(std::vector<Effect>{Move(0, 0, 1, 10), Move(0, 36, 2, 10)}, true), 1u);
  EXPECT_EQ(FirstBatch(std::vector<Effect>{Move(0, 0, 1, 10), Move(2, 0, 0, 10)}, true), 1u);
  EXPECT_EQ(FirstBatch(std::vector<Effect>{Move(0, 0, 1, 10), Move(1, 0, 2, 10)}, true), 1u);
}

TEST(FirstBatch, EndsWithTheKindAndTheTypes) {
  Effect other = Move(3, 0, 1, 10);
  other.source.type = DataType::kBf16;
  EXPECT_EQ(FirstBatch(std::vector<Effect>{Move(0, 0, 1, 10), other}, true), 1u);
  other = Move(3, 0, 1, 10);
  other.kind = EffectKind::kGradient;
  EXPECT_EQ(FirstBatch(std::vector<Effect>{Move(0, 0, 1, 10), other}, true), 1u);
}

// The layout of a reduce-scatter's input: every parameter has a part in each rank's share.
TEST(FirstBatch, InterleavedBlocksLieApart) {
  const std::vector<Effect> effects = {Move(0, 0, 1, 40, 10, 25), Move(0, 40, 2, 60, 15, 25)};
  EXPECT_EQ(FirstBatch(effects, true), 2u);
  const std::vector<Effect> touching = {Move(0, 0, 1, 40, 10, 25), Move(0, 36, 2, 60, 15, 25)};
  EXPECT_EQ(FirstBatch(touching, true), 1u);
}

TEST(FirstBatch, SumsIntoOneNumberStayTogether) {
  const auto squares = [](Index from) {
    return Effect{.kind = EffectKind::kSquares, .target = {9}, .source = {from}, .elements = 5};
  };
  EXPECT_EQ(FirstBatch(std::vector<Effect>{squares(0), squares(1), squares(2)}, true), 3u);
  EXPECT_EQ(FirstBatch(std::vector<Effect>{squares(0), squares(9)}, true), 1u);
}

TEST(FirstBatch, UpdatesOfOneArrayOfStatesInterleave) {
  const auto update = [](std::int64_t first, std::int64_t elements) {
    const Bytes at(4 * first);
    return Effect{.kind = EffectKind::kUpdate,
                  .target = {0, at, DataType::kFp32},
                  .source = {1, at, DataType::kFp32},
                  .states = {2, at, DataType::kFp32},
                  .state_stride = 100,
                  .elements = elements};
  };
  EXPECT_EQ(FirstBatch(std::vector<Effect>{update(0, 50), update(50, 50)}, true), 2u);
  EXPECT_EQ(FirstBatch(std::vector<Effect>{update(0, 51), update(50, 50)}, true), 1u);
}

std::set<std::int64_t> BytesWritten(const Effect& move) {
  std::set<std::int64_t> bytes;
  for (std::int64_t i = 0; i < move.elements; ++i) {
    const std::int64_t at =
        move.block >= move.elements ? i : i / move.block * move.target_stride + i % move.block;
    for (int b = 0; b < 4; ++b) bytes.insert(move.target.offset.count() + 4 * at + b);
  }
  return bytes;
}

RC_GTEST_PROP(FirstBatch, NeverWritesAByteTwice, ()) {
  std::vector<Effect> moves;
  for (Index i = 0; i < 6; ++i) {
    const auto block = *rc::gen::inRange<std::int64_t>(1, 6);
    moves.push_back(Move(0, 4 * *rc::gen::inRange<std::int64_t>(0, 40), 1 + i,
                         *rc::gen::inRange<std::int64_t>(1, 20), block,
                         block + *rc::gen::inRange<std::int64_t>(0, 6)));
  }
  const std::size_t batch = FirstBatch(moves, true);
  RC_ASSERT(batch >= 1u);
  std::set<std::int64_t> all;
  std::size_t sum = 0;
  for (std::size_t i = 0; i < batch; ++i) {
    const std::set<std::int64_t> own = BytesWritten(moves[i]);
    all.insert(own.begin(), own.end());
    sum += own.size();
  }
  RC_ASSERT(all.size() == sum);
}

}  // namespace

}  // namespace stepcast::runtime::cuda
