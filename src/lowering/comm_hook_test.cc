#include "src/lowering/comm_hook.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

// GPT-2's layers, small. Its matrices, by rows and columns: the embeddings 11 x 6 (its own head)
// and 8 x 6, and in each of two blocks 6 x 18, 6 x 6, 6 x 10 and 10 x 6, one way round or the
// other: 66 + 48 + 2 x 264 = 642 elements. Its vectors: 64 elements a block and 12 at the end, 140.
program::Program Lowered(const std::string& data_parallel) {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model:
  kind: transformer
  family: gpt2
  num_hidden_layers: 2
  hidden_size: 6
  num_attention_heads: 2
  intermediate_size: 10
  vocab_size: 11
  max_position_embeddings: 8
cluster:
  topology: {{kind: flat, devices: 4, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: fp32,
            optimizer: adamw}}
data_parallel: {{zero_stage: 0, framework: ddp, {}}}
)",
                                       data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : Format(scenario.error()));
  if (!scenario) return {};
  program::Program program = LowerRank(*scenario);
  EXPECT_TRUE(program::Validate(program).empty()) << data_parallel;
  return program;
}

std::vector<Bytes> AllReduces(const program::Program& program) {
  std::vector<Bytes> bytes;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    bytes.push_back(program.collectives[instruction.operand].bytes);
  }
  return bytes;
}

int Times(const program::Program& program, const std::string& name) {
  int times = 0;
  for (const program::Instruction& instruction : program.step) {
    times +=
        instruction.opcode == Opcode::kKernel && program.kernels[instruction.operand].name == name;
  }
  return times;
}

Bytes Resident(const program::Program& program, const std::string& prefix) {
  Bytes bytes;
  for (const program::Instruction& instruction : program.prologue) {
    if (instruction.opcode != Opcode::kAllocate) continue;
    const program::Buffer& buffer = program.buffers[instruction.operand];
    if (program.NameOf(buffer).starts_with(prefix)) bytes += buffer.size;
  }
  return bytes;
}

int HostWaits(const program::Program& program) {
  int count = 0;
  for (const program::Instruction& instruction : program.step) {
    count += instruction.opcode == Opcode::kHostWaitEvent;
  }
  return count;
}

TEST(CommHook, CastsHalveWhatIsSent) {
  EXPECT_EQ(AllReduces(Lowered("comm_hook: none")), (std::vector{Bytes(4 * 782)}));
  for (const char* hook : {"fp16_compress", "bf16_compress"}) {
    const auto program = Lowered(fmt::format("comm_hook: {}", hook));
    EXPECT_EQ(AllReduces(program), (std::vector{Bytes(2 * 782)})) << hook;
    for (const Kernel& kernel : program.kernels) {
      if (kernel.name == "compress_bucket") {
        EXPECT_EQ(kernel.read, Bytes(4 * 782));
        EXPECT_EQ(kernel.written, Bytes(2 * 782));
      }
      if (kernel.name == "decompress_bucket") {
        EXPECT_EQ(kernel.read, Bytes(2 * 782));
        EXPECT_EQ(kernel.written, Bytes(4 * 782));
      }
    }
    EXPECT_EQ(Times(program, "compress_bucket"), 1);
    EXPECT_EQ(Times(program, "divide_bucket"), 1);
    EXPECT_EQ(Times(program, "decompress_bucket"), 1);
    EXPECT_EQ(HostWaits(program), 0);
  }
}

// Rank 1: a matrix of n x m is sent as n + m elements, if twice that is less than n m. That holds
// for all ten, the smallest 2 x 12 < 36: 17 + 14 + 2 x (24 + 12 + 16 + 16) = 167 elements. The
// vectors are sent as they are, first.
TEST(CommHook, PowerSgdSendsVectorsThenFactors) {
  const auto program = Lowered("comm_hook: powerSGD");
  const std::vector<Bytes> sent = AllReduces(program);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0], Bytes(4 * 140));
  EXPECT_EQ(sent[1] + sent[2], Bytes(4 * 167));
  EXPECT_EQ(Times(program, "powersgd_p"), 10);
  EXPECT_EQ(Times(program, "powersgd_q"), 10);
  EXPECT_EQ(Times(program, "powersgd_restore"), 10);
  // A norm and a division for each P and each Q.
  EXPECT_EQ(Times(program, "column_norm"), 20);
  EXPECT_EQ(Times(program, "normalise_column"), 20);
  EXPECT_EQ(Times(program, "subtract_column"), 0);
  EXPECT_EQ(HostWaits(program), 1);
  EXPECT_EQ(Resident(program, "error of bucket"), Bytes(4 * 782));
  EXPECT_EQ(Resident(program, "P of bucket") + Resident(program, "Q of bucket"), Bytes(4 * 167));
}

// Rank 2: twice 2 (n + m) is less than n m only for 6 x 18: 96 < 108. Gram-Schmidt subtracts the
// first column from the second, which takes four more kernels than treating each column alone.
TEST(CommHook, PowerSgdOfRankTwoCompressesWhatIsWorthIt) {
  const auto program = Lowered("comm_hook: powerSGD, powersgd: {matrix_approximation_rank: 2}");
  const std::vector<Bytes> sent = AllReduces(program);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0], Bytes(4 * (782 - 2 * 108)));
  EXPECT_EQ(sent[1] + sent[2], Bytes(4 * 2 * 2 * 24));
  EXPECT_EQ(Times(program, "column_norm"), 2 * 2 * 2);
  EXPECT_EQ(Times(program, "subtract_column"), 2 * 2);
}

// At rank 4 no compression is worthwhile: one all-reduce of everything.
TEST(CommHook, PowerSgdOfLargeRankSendsEverything) {
  const auto program = Lowered("comm_hook: powerSGD, powersgd: {matrix_approximation_rank: 4}");
  EXPECT_EQ(AllReduces(program), (std::vector{Bytes(4 * 782)}));
}

TEST(CommHook, PowerSgdWithoutMemoryKeepsNothing) {
  const auto program =
      Lowered("comm_hook: powerSGD, powersgd: {use_error_feedback: false, warm_start: false}");
  EXPECT_EQ(Resident(program, "error of bucket"), Bytes(0));
  EXPECT_EQ(Resident(program, "P of bucket") + Resident(program, "Q of bucket"), Bytes(0));
  EXPECT_EQ(Times(program, "add_error"), 0);
  // The ten Q start from random numbers that the host made.
  int copies = 0;
  for (const program::Instruction& instruction : program.step) {
    copies += instruction.opcode == Opcode::kCopy;
  }
  EXPECT_EQ(copies, 10);
}

}  // namespace
}  // namespace stepcast::lowering
