#include "src/runtime/cuda/effect_batches.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace stepcast::runtime::cuda {
namespace {

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
