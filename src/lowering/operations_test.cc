#include "src/lowering/operations.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/parallel/group_layout.h"

namespace stepcast::lowering {
namespace {

using program::BufferUse;
using program::Category;
using program::EffectKind;
using program::Instruction;
using program::kNone;

// Two ranges of 6 and 4 elements, in FP32 and BF16, and a communicator of two ranks.
class OperationsTest : public testing::Test {
 protected:
  OperationsTest() : builder_({.data_flow = true}), operations_(builder_) {
    stream_ = builder_.AddStream("compute");
    communicator_ = builder_.AddCommunicator("data", parallel::GroupLayout(2, {{1, 2}}));
    wide_ = operations_.AddRange({.first = builder_.AddText("wide")}, 6, DataType::kFp32,
                                 Category::kGradient);
    half_ = operations_.AddRange({.first = builder_.AddText("half")}, 4, DataType::kBf16,
                                 Category::kGradient, 3);
    builder_.BeginStep();
  }

  program::Program Taken() { return builder_.Take(); }

  static std::vector<BufferUse> UsesOf(const program::Program& program, std::size_t at) {
    const Instruction& instruction = program.step[at];
    const auto first = program.uses.begin() + instruction.first_use;
    return {first, first + instruction.use_count};
  }

  ProgramBuilder builder_;
  Operations operations_;
  StreamId stream_ = 0;
  Index communicator_ = kNone;
  Range wide_, half_;
};

// Elements beyond the exact number are padding.
TEST_F(OperationsTest, RangesKnowTheirPadding) {
  operations_.AddShard({.first = builder_.AddText("shard")}, 3, DataType::kFp32,
                       Category::kOptimizer, 5, 2);
  const auto program = Taken();
  EXPECT_EQ(program.buffers[0].size, Bytes(24));
  EXPECT_EQ(program.buffers[0].padding, Bytes(0));
  EXPECT_EQ(program.buffers[1].padding, Bytes(2));
  EXPECT_EQ(program.buffers[2].padding, Bytes(12 - 4 * 5 / 2));
}

// A cast reads the source, writes the target, and moves as many elements as both hold.
TEST_F(OperationsTest, ACopyFollowsFromSourceAndTarget) {
  operations_.Copy(stream_, "cast", wide_.Part(1, 5), half_, 0.5);
  const auto program = Taken();
  const Kernel& kernel = program.kernels[program.step[0].operand];
  EXPECT_EQ(kernel.name, "cast");
  EXPECT_EQ(kernel.read, Bytes(8));
  EXPECT_EQ(kernel.written, Bytes(20));
  const auto uses = UsesOf(program, 0);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_FALSE(uses[0].write);
  EXPECT_EQ(uses[0].buffer, half_.buffer());
  EXPECT_TRUE(uses[1].write);
  EXPECT_EQ(uses[1].offset, Bytes(4));
  EXPECT_EQ(uses[1].size, Bytes(20));
  ASSERT_EQ(program.data_flow.effects.size(), 1u);
  const program::Effect& effect = program.data_flow.effects[0];
  EXPECT_EQ(effect.kind, EffectKind::kMove);
  EXPECT_EQ(effect.elements, 4);
  EXPECT_EQ(effect.scale, 0.5);
  EXPECT_FALSE(effect.add);
}

// An accumulation also reads its target. Identical kernels share one entry.
TEST_F(OperationsTest, AnAccumulationReadsItsTarget) {
  operations_.Accumulate(stream_, "add", wide_, half_);
  operations_.Accumulate(stream_, "add", wide_, half_, false);
  const auto program = Taken();
  ASSERT_EQ(program.kernels.size(), 1u);
  EXPECT_EQ(program.kernels[0].read, Bytes(8 + 24));
  EXPECT_EQ(program.kernels[0].written, Bytes(24));
  EXPECT_TRUE(program.data_flow.effects[0].add);
  EXPECT_FALSE(program.data_flow.effects[1].add);
}

// In place, the whole is one use; otherwise the part is a separate read or write.
TEST_F(OperationsTest, CollectivesSendTheWhole) {
  operations_.ReduceScatter(stream_, communicator_, wide_.Share(1, 3), wide_, true);
  const Range part = operations_.AddRange({.first = builder_.AddText("part")}, 2, DataType::kBf16,
                                          Category::kParameter);
  operations_.AllGather(stream_, communicator_, half_, part);
  const auto program = Taken();
  const program::Collective& scatter = program.collectives[program.step[0].operand];
  EXPECT_EQ(scatter.kind, CollectiveKind::kReduceScatter);
  EXPECT_EQ(scatter.bytes, Bytes(24));
  EXPECT_EQ(scatter.data_type, DataType::kFp32);
  EXPECT_TRUE(scatter.average);
  ASSERT_EQ(UsesOf(program, 0).size(), 1u);
  EXPECT_EQ(UsesOf(program, 0)[0].size, Bytes(24));
  EXPECT_EQ(program.data_flow.effects[0].target.offset, Bytes(12));
  const program::Collective& gather = program.collectives[program.step[1].operand];
  EXPECT_EQ(gather.bytes, Bytes(8));
  EXPECT_EQ(gather.data_type, DataType::kBf16);
  const auto uses = UsesOf(program, 1);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].buffer, part.buffer());
  EXPECT_EQ(uses[1].buffer, half_.buffer());
}

// Ranks' programs differ only in their data flow: the offset of a share is not part of the use.
TEST_F(OperationsTest, ASharesUseIsTheWholeBuffer) {
  operations_.Copy(stream_, "fill", wide_.Share(1, 2), half_.Part(0, 2));
  const auto program = Taken();
  const auto uses = UsesOf(program, 0);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[1].offset, Bytes(0));
  EXPECT_EQ(uses[1].size, Bytes(24));
  EXPECT_EQ(program.kernels[0].written, Bytes(8));
}

}  // namespace
}  // namespace stepcast::lowering
