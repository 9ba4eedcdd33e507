#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/calibrate/benchmark.h"
#include "src/program/validator.h"

namespace stepcast::calibrate {
namespace {

// Mistakes in a benchmark: violations of its program, effects outside their buffers, and probes of
// instructions that are not operations.
std::vector<std::string> Faults(const Benchmark& benchmark) {
  const program::Program& program = benchmark.program;
  std::vector<std::string> faults;
  for (const program::Violation& violation : program::Validate(program)) {
    faults.push_back(violation.message);
  }
  if (program.data_flow.first.size() != program.step.size() + 1) faults.emplace_back("effects");
  for (const Probe& probe : benchmark.probes) {
    if (probe.operations.empty()) faults.emplace_back("a probe of nothing");
    for (const program::Index operation : probe.operations) {
      const program::Opcode opcode = program.step.at(operation).opcode;
      if (opcode != program::Opcode::kKernel && opcode != program::Opcode::kCopy &&
          opcode != program::Opcode::kCollective && opcode != program::Opcode::kExchange) {
        faults.emplace_back("a probe of no operation");
      }
    }
  }
  return faults;
}

using None = std::vector<std::string>;

TEST(BenchmarkProgramsTest, AreSound) {
  EXPECT_EQ(Faults(KernelBenchmark({MemoryKernel(MiB(1)), Product(DataType::kBf16, 8, 16, 32)}, 3)),
            None());
  EXPECT_EQ(Faults(OptimizerBenchmark({256, 1 << 20}, MiB(16), 4)), None());
  EXPECT_EQ(Faults(CopyBenchmark(program::CopyDirection::kHostToDevice, {KiB(4), MiB(1)}, 4)),
            None());
  EXPECT_EQ(Faults(TwoWayCopyBenchmark(MiB(1), 5)), None());
  EXPECT_EQ(Faults(LaunchBenchmark({2})), None());
  for (const CollectiveKind kind : kCollectiveKinds) {
    EXPECT_EQ(Faults(CollectiveBenchmark(kind, {KiB(1), KiB(4), MiB(1)}, {{0, 1}, {2, 3}}, 3)),
              None());
    EXPECT_EQ(Faults(OverlapBenchmark(MemoryKernel(MiB(8)), 5, kind, MiB(1), 4, {0, 1, 2, 3}, 2)),
              None());
  }
  EXPECT_EQ(Faults(OverlapBenchmark(MemoryKernel(MiB(8)), 0, CollectiveKind::kAllReduce, MiB(1), 4,
                                    {0, 1}, 1)),
            None());
}

// In place, as in NCCL: rank 3 is second in its group, so its part is the second half.
TEST(BenchmarkProgramsTest, CollectivesWorkOnTheRanksOwnPart) {
  const auto effect = [](CollectiveKind kind) {
    return CollectiveBenchmark(kind, {KiB(4)}, {{0, 1}, {2, 3}}, 3)
        .program.data_flow.effects.front();
  };
  EXPECT_EQ(effect(CollectiveKind::kAllReduce).source.offset, Bytes(0));
  EXPECT_EQ(effect(CollectiveKind::kAllReduce).elements, 1024);
  EXPECT_EQ(effect(CollectiveKind::kReduceScatter).target.offset, KiB(2));
  EXPECT_EQ(effect(CollectiveKind::kReduceScatter).source.offset, Bytes(0));
  EXPECT_EQ(effect(CollectiveKind::kAllGather).source.offset, KiB(2));
  EXPECT_EQ(effect(CollectiveKind::kAllGather).target.offset, Bytes(0));
}

// Not in place: two ranks of 4 KiB send half of it each, and keep the other half.
TEST(BenchmarkProgramsTest, AllToAllsGoFromOneBufferToAnother) {
  const Benchmark benchmark =
      CollectiveBenchmark(CollectiveKind::kAllToAll, {KiB(4)}, {{0, 1}, {2, 3}}, 3);
  const program::Effect& effect = benchmark.program.data_flow.effects.front();
  EXPECT_NE(effect.source.buffer, effect.target.buffer);
  const auto& collective = *std::find_if(
      benchmark.program.step.begin(), benchmark.program.step.end(),
      [](const auto& instruction) { return instruction.opcode == program::Opcode::kCollective; });
  ASSERT_EQ(collective.use_count, 2u);
  for (program::Index i = 0; i < 2; ++i) {
    const program::BufferUse& use = benchmark.program.uses[collective.first_use + i];
    EXPECT_EQ(use.size, KiB(2));
    EXPECT_EQ(use.buffer, use.write ? effect.target.buffer : effect.source.buffer);
  }
}

// An exchange sends as much to the next rank of the group as it receives from the previous one, and
// has a probe.
TEST(BenchmarkProgramsTest, MessagesAreExchanges) {
  const Benchmark benchmark =
      CollectiveBenchmark(CollectiveKind::kSendRecv, {KiB(4), MiB(1)}, {{0, 1}, {2, 3}}, 3);
  ASSERT_EQ(benchmark.probes.size(), 2u);
  ASSERT_EQ(benchmark.program.exchanges.size(), 2u);
  EXPECT_TRUE(benchmark.program.collectives.empty());
  EXPECT_EQ(benchmark.program.groups.front().ranks, (std::vector<int>{2, 3}));
  const program::Exchange& exchange = benchmark.program.exchanges.back();
  ASSERT_EQ(exchange.messages.size(), 2u);
  EXPECT_EQ(exchange.messages[0].direction, program::MessageDirection::kSend);
  EXPECT_EQ(exchange.messages[1].direction, program::MessageDirection::kReceive);
  EXPECT_EQ(exchange.PeerPosition(exchange.messages[0], 1, 2), 0);
  EXPECT_EQ(exchange.PeerPosition(exchange.messages[1], 1, 2), 0);
  EXPECT_EQ(exchange.messages[0].bytes, MiB(1));
  const program::Instruction& last = benchmark.program.step[benchmark.probes[1].operations.front()];
  EXPECT_EQ(last.opcode, program::Opcode::kExchange);
  ASSERT_EQ(last.use_count, 2u);  // what is sent, and what comes
  EXPECT_NE(benchmark.program.uses[last.first_use].buffer,
            benchmark.program.uses[last.first_use + 1].buffer);
}

// Counted as in src/model, from which backends find the shape: two products of s x s x 128 in 128
// heads, half masked, and a log-sum-exp per row and head. The backward has two numbers per row, and
// sums the queries' gradient in FP32.
TEST(BenchmarkProgramsTest, AttentionCountsAsTheModelDoes) {
  constexpr std::int64_t kRows = 1024 * 128;
  constexpr std::int64_t kOperand = kRows * 128 * 2;  // bytes
  const Kernel forward = AttentionKernel(KernelKind::kAttention, DataType::kBf16, 128, 1024, 128);
  EXPECT_EQ(forward.flops, std::int64_t{2} * 2 * 1024 * 1024 * 128 * 128 / 2);
  EXPECT_EQ(forward.read, Bytes(3 * kOperand));
  EXPECT_EQ(forward.written, Bytes(kOperand + 4 * kRows));
  const Kernel backward =
      AttentionKernel(KernelKind::kAttentionGradient, DataType::kBf16, 128, 1024, 128);
  EXPECT_EQ(2 * backward.flops, 5 * forward.flops);
  EXPECT_EQ(backward.read, Bytes(5 * kOperand + 8 * kRows + 2 * kOperand));
  EXPECT_EQ(backward.written, Bytes(3 * kOperand + 2 * kOperand));
}

// At any point in host order, both chains have progressed about equally: 9 kernels, 3 collectives.
TEST(BenchmarkProgramsTest, OverlapIssuesBothChainsSideBySide) {
  const Benchmark benchmark =
      OverlapBenchmark(MemoryKernel(MiB(8)), 8, CollectiveKind::kAllReduce, MiB(1), 2, {0, 1}, 0);
  ASSERT_EQ(benchmark.probes.size(), 2u);
  ASSERT_EQ(benchmark.probes[0].operations.size(), 9u);
  ASSERT_EQ(benchmark.probes[1].operations.size(), 3u);
  for (std::size_t c = 1; c < 3; ++c) {
    const program::Index at = benchmark.probes[1].operations[c];
    const auto& kernels = benchmark.probes[0].operations;
    const auto before = std::lower_bound(kernels.begin(), kernels.end(), at) - kernels.begin();
    EXPECT_NEAR(before, 3 * static_cast<int>(c), 1);
  }
}

// Concurrent chains last equally long, to within one operation, even if the slow operation then has
// few samples.
TEST(BenchmarkProgramsTest, ChainsBesideEachOtherAreOfOneLength) {
  for (const auto& [kernel, collective] : std::vector<std::pair<double, double>>{
           {1e-3, 8e-3}, {8e-6, 3e-5}, {2e-5, 8e-3}, {0.05, 1e-5}, {1e-4, 1e-4}}) {
    const Chains chains = ChainsBeside(kernel, collective);
    EXPECT_GE(chains.kernels, 4);
    EXPECT_GE(chains.collectives, 4);
    if (chains.kernels == 5000 || chains.collectives == 5000) continue;
    EXPECT_NEAR(chains.kernels * kernel, chains.collectives * collective,
                std::max(kernel, collective))
        << kernel << " " << collective;
  }
  // 0.2 s each; at most 300 of the quicker; at least 4 of the slower.
  EXPECT_EQ(ChainsBeside(1e-3, 8e-3).kernels, 200);
  EXPECT_EQ(ChainsBeside(8e-6, 3e-5).kernels, 300);
  EXPECT_EQ(ChainsBeside(2e-5, 8e-3).collectives, 4);
  EXPECT_EQ(ChainsBeside(2e-5, 8e-3).kernels, 1600);
}

}  // namespace
}  // namespace stepcast::calibrate
