#include "src/calibrate/benchmark_programs.h"

#include <cstddef>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/program/validator.h"

namespace stepcast::calibrate {
namespace {

// What is wrong with a benchmark: its program's violations, effects that leave their buffers,
// probes of something else than operations.
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
          opcode != program::Opcode::kCollective) {
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
  EXPECT_EQ(Faults(OptimizerBenchmark({256, 1 << 20}, 4)), None());
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

// In place as NCCL has it: rank 3 is the second of its group, so its part is the second half.
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

// As the lowering of a model counts: two products of s x s x 128 in 16 heads, half of it masked.
TEST(BenchmarkProgramsTest, AttentionCountsAsTheModelDoes) {
  const Kernel forward = AttentionKernel(KernelKind::kAttention, DataType::kBf16, 1024);
  EXPECT_EQ(forward.flops, std::int64_t{2} * 2 * 1024 * 1024 * 128 * 16 / 2);
  EXPECT_EQ(forward.read + forward.written, Bytes(std::int64_t{4} * 1024 * 2048 * 2));
  const Kernel backward = AttentionKernel(KernelKind::kAttentionGradient, DataType::kBf16, 1024);
  EXPECT_EQ(2 * backward.flops, 5 * forward.flops);
}

}  // namespace
}  // namespace stepcast::calibrate
