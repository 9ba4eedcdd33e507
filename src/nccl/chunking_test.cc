#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/nccl/memory.h"
#include "src/nccl/sample_communicators.h"

namespace stepcast::nccl {
namespace {

// Four of eight steps of 512 KiB; half of that is handed on at once; 16 channels of 16 ranks.
TEST(ChunkingTest, SimpleRings) {
  const Chunking chunking =
      ChunkingOf(H100(2), Function::kAllReduce, Algorithm::kRing, Protocol::kSimple, 16, GiB(1));
  EXPECT_EQ(chunking,
            (Chunking{.chunk = MiB(2), .slice = MiB(1), .loop = MiB(512), .steps_of_chunk = 4}));
  EXPECT_EQ(
      ChunkingOf(H100(2), Function::kBroadcast, Algorithm::kRing, Protocol::kSimple, 16, GiB(1)),
      (Chunking{.chunk = KiB(512), .slice = KiB(512), .loop = MiB(8), .steps_of_chunk = 1}));
}

// LL: 64 KiB, half of it flags. LL128: 614,400 B, a sixteenth of it flags: 576,000 B.
TEST(ChunkingTest, FlagsTakeTheirPart) {
  EXPECT_EQ(
      ChunkingOf(H100(1), Function::kAllReduce, Algorithm::kRing, Protocol::kLl, 1, MiB(1)).chunk,
      KiB(32));
  EXPECT_EQ(ChunkingOf(H100(1), Function::kAllReduce, Algorithm::kRing, Protocol::kLl128, 1, MiB(1))
                .chunk,
            Bytes(576'000));
}

// Four nodes: 1 + 2 + 0.8 = 3.8 hops, 0.475 for each of 8 ranks; chunks halve while there are fewer
// than 30.4 of them, down to 128 KiB: 576,000 -> 288,000 -> 144,000 -> 72,000 B; and while fewer
// than 7.6, down to 32 KiB: -> 36,000 -> 18,000. Multiples of 1920: 17,280.
TEST(ChunkingTest, Ll128TreesCutSmallMessagesFiner) {
  const auto chunk = [](Bytes bytes) {
    return ChunkingOf(H100(4), Function::kAllReduce, Algorithm::kTree, Protocol::kLl128, 1, bytes)
        .chunk;
  };
  EXPECT_EQ(chunk(KiB(64)), Bytes(17'280));
  // 1 MiB: 14 of 72,000 are enough for the second rule.
  EXPECT_EQ(chunk(MiB(1)), Bytes(71'040));
  EXPECT_EQ(chunk(MiB(64)), Bytes(576'000));
}

// 16 channels, 8 heads: 128 lanes. 64 rounds of 128 KiB are 1 GiB, 8 of 64 KiB 64 MiB, 2 of 32 KiB
// 8 MiB.
TEST(ChunkingTest, Nvls) {
  const auto chunk = [](Bytes bytes) {
    return ChunkingOf(H100(1), Function::kAllReduce, Algorithm::kNvls, Protocol::kSimple, 16, bytes)
        .chunk;
  };
  EXPECT_EQ(chunk(GiB(1)), KiB(128));
  EXPECT_EQ(chunk(MiB(512)), KiB(64));
  EXPECT_EQ(chunk(MiB(32)), KiB(32));
  EXPECT_EQ(chunk(MiB(4)), KiB(16));
}

// Two nodes 128 KiB at most, four 64 KiB. 128 lanes: 16 rounds of 128 KiB are 256 MiB, 4 are 64
// MiB; one round of 64 KiB is 8 MiB.
TEST(ChunkingTest, NvlsTree) {
  const auto chunk = [](int nodes, Bytes bytes) {
    return ChunkingOf(H100(nodes), Function::kAllReduce, Algorithm::kNvlsTree, Protocol::kSimple,
                      16, bytes)
        .chunk;
  };
  EXPECT_EQ(chunk(2, GiB(1)), KiB(128));
  EXPECT_EQ(chunk(2, MiB(32)), KiB(64));
  EXPECT_EQ(chunk(2, MiB(4)), KiB(32));
  EXPECT_EQ(chunk(4, GiB(1)), KiB(64));
}

// 32 rounds of 512 KiB on 4 channels are 64 MiB.
TEST(ChunkingTest, Pat) {
  const auto chunk = [](Function function, Bytes bytes) {
    return ChunkingOf(H100(4), function, Algorithm::kPat, Protocol::kSimple, 4, bytes).chunk;
  };
  EXPECT_EQ(chunk(Function::kAllGather, MiB(64)), KiB(512));
  EXPECT_EQ(chunk(Function::kAllGather, MiB(32)), KiB(256));
  EXPECT_EQ(chunk(Function::kReduceScatter, MiB(32)), KiB(512));
  EXPECT_EQ(chunk(Function::kAllGather, KiB(1)), KiB(64));
}

// 100 KB left for eight ranks: 12,500 B each, 25 grains of 512 B.
TEST(ChunkingTest, TheLastLoopIsDealtOutAmongTheRanks) {
  const Chunking chunking =
      ChunkingOf(H100(1), Function::kAllReduce, Algorithm::kRing, Protocol::kSimple, 24, GiB(1));
  EXPECT_EQ(LastRingChunk(chunking, Protocol::kSimple, 8, Bytes(100'000)), Bytes(12'800));
  EXPECT_EQ(LastRingChunk(chunking, Protocol::kSimple, 8, GiB(1)), MiB(2));
}

RC_GTEST_PROP(ChunkingProperty, ChunksAreWholeGrainsAndFitTheirBuffer, ()) {
  const Communicator communicator = H100(*rc::gen::inRange(1, 9));
  const Algorithm algorithm =
      *rc::gen::elementOf(std::vector(kAlgorithms.begin(), kAlgorithms.end()));
  const bool any_protocol = algorithm == Algorithm::kRing || algorithm == Algorithm::kTree;
  const Protocol protocol =
      any_protocol ? *rc::gen::elementOf(std::vector(kProtocols.begin(), kProtocols.end()))
                   : Protocol::kSimple;
  const Chunking chunking =
      ChunkingOf(communicator, Function::kAllReduce, algorithm, protocol, *rc::gen::inRange(1, 33),
                 Bytes(*rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 34)));
  RC_ASSERT(chunking.chunk.count() > 0);
  RC_ASSERT(chunking.chunk.count() % Grain(protocol).count() == 0);
  RC_ASSERT(chunking.chunk <= BufferBytes(protocol));
  RC_ASSERT(chunking.slice <= chunking.chunk);
}

}  // namespace
}  // namespace stepcast::nccl
