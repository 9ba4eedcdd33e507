#include "src/nccl/memory.h"

#include "gtest/gtest.h"
#include "src/nccl/sample_communicators.h"

namespace stepcast::nccl {
namespace {

// 512 KiB + 4,915,200 B + 4 MiB = 9.19 MiB, in pages of 2 MiB.
TEST(MemoryTest, AConnectionHasBuffersForAllProtocols) { EXPECT_EQ(ConnectionBytes(), MiB(10)); }

// H100, one node: 24 channels; along a chain from both sides.
TEST(MemoryTest, RingsReceiveFromOnePeerATreeFromSeveral) {
  EXPECT_EQ(AlgorithmBytes(H100(1), Algorithm::kRing), 24 * MiB(10));
  EXPECT_EQ(AlgorithmBytes(H100(1), Algorithm::kTree), 24 * 2 * MiB(10));
  // 16 channels; four connections at most.
  EXPECT_EQ(AlgorithmBytes(H100(4), Algorithm::kTree), 16 * 4 * MiB(10));
}

// 16 channels x 8 heads x 2 x 8 x 128 KiB = 256 MiB.
TEST(MemoryTest, Nvls) {
  EXPECT_EQ(AlgorithmBytes(H100(1), Algorithm::kNvls), MiB(256));
  EXPECT_EQ(AlgorithmBytes(A100(1), Algorithm::kNvls), Bytes(0));
  // And from one other node.
  EXPECT_EQ(AlgorithmBytes(H100(2), Algorithm::kNvlsTree), MiB(256) + 16 * MiB(10));
}

TEST(MemoryTest, OneRankNeedsNone) {
  Communicator alone = H100(1);
  alone.ranks = alone.most_local_ranks = 1;
  for (Algorithm algorithm : kAlgorithms) EXPECT_EQ(AlgorithmBytes(alone, algorithm), Bytes(0));
}

// 32 and 64 channels of chunks of 512 KiB; the latter is what NVIDIA/nccl issue 2363 reports.
TEST(MemoryTest, SendsAndReceivesShareAPool) {
  EXPECT_EQ(PointToPointPoolBytes(32, KiB(512)), MiB(256));
  EXPECT_EQ(PointToPointPoolBytes(64, KiB(512)), MiB(512));
}

}  // namespace
}  // namespace stepcast::nccl
