#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/lowering/update.h"
#include "src/program/program.h"
#include "src/program/validator.h"
#include "src/scenario/load.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

struct Lowered {
  model::Model model;
  program::Program program;
};

Lowered LowerWith(const std::string& optimizer, const std::string& data_parallel,
                  const std::string& training = "", const std::string& torch = "2.6") {
  static scenario::InputCache cache;
  const std::string text = fmt::format(R"(
stepcast: 1
model: {{kind: transformer, family: llama, hidden_size: 64, num_hidden_layers: 2,
         num_attention_heads: 4, intermediate_size: 120, vocab_size: 250}}
cluster:
  topology: {{kind: flat, devices: 4, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
software: {{torch: "{}"}}
training: {{sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: fp32,
            optimizer: {}{}}}
data_parallel: {{{}}}
)",
                                       torch, optimizer, training, data_parallel);
  const auto scenario = scenario::LoadText(text, "test", {}, cache);
  EXPECT_TRUE(scenario.has_value()) << Format(scenario.error());
  Lowered lowered{.model = *scenario->model, .program = lowering::LowerRank(*scenario)};
  EXPECT_TRUE(program::Validate(lowered.program).empty());
  return lowered;
}

Lowered Lower(const std::string& data_parallel, const std::string& training = "",
              const std::string& torch = "2.6") {
  return LowerWith("adamw", data_parallel, training, torch);
}

// Bytes that the update allocates, and (negative) releases, in order.
std::vector<std::int64_t> Requests(const program::Program& program) {
  std::vector<std::int64_t> requests;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode != Opcode::kAllocate && instruction.opcode != Opcode::kRelease) continue;
    const program::Buffer& buffer = program.buffers[instruction.operand];
    if (program.NameOf(buffer) != "optimizer temporaries") continue;
    const std::int64_t bytes = buffer.size.count();
    requests.push_back(instruction.opcode == Opcode::kAllocate ? bytes : -bytes);
  }
  return requests;
}

// `lists` lists of tensors of these sizes, allocated one after the other; then all are released.
std::vector<std::int64_t> ListsOf(const std::vector<std::int64_t>& sizes, int lists) {
  std::vector<std::int64_t> requests;
  for (int list = 0; list < lists; ++list) {
    requests.insert(requests.end(), sizes.begin(), sizes.end());
  }
  for (int list = 0; list < lists; ++list) {
    for (std::size_t i = sizes.size(); i-- > 0;) requests.push_back(-sizes[i]);
  }
  return requests;
}

// FP32 bytes of each tensor over `ranks` ranks: whole rows, rounded up.
std::vector<std::int64_t> SizesOf(const model::Model& model, std::int64_t ranks) {
  std::vector<std::int64_t> sizes;
  for (const model::Tensor& tensor : model.tensors) {
    const std::int64_t rows = tensor.shape.front();
    sizes.push_back((rows + ranks - 1) / ranks * (tensor.elements / rows) * 4);
  }
  return sizes;
}

// The roots are allocated right before the kernel that reads them.
TEST(FrameworkUpdate, ForeachMakesATensorForEachParameter) {
  const auto [model, program] = Lower("zero_stage: 0, framework: ddp");
  EXPECT_EQ(Requests(program), ListsOf(SizesOf(model, 1), 1));
  std::string next;
  for (std::size_t i = 0; i + 1 < program.step.size(); ++i) {
    const program::Instruction& after = program.step[i + 1];
    if (program.step[i].opcode == Opcode::kAllocate && after.opcode == Opcode::kKernel) {
      next = program.kernels[after.operand].name;
    }
  }
  EXPECT_EQ(next, "foreach_sqrt(exp_avg_sq)");
}

TEST(FrameworkUpdate, ForeachOfOldReleasesMakesTwo) {
  const auto [model, program] = Lower("zero_stage: 0, framework: ddp", "", "2.0");
  EXPECT_EQ(Requests(program), ListsOf(SizesOf(model, 1), 2));
}

// DTensors' local parts: 250 rows on 4 ranks are 63 on the first.
TEST(FrameworkUpdate, ForeachOfFsdp2SeesLocalParts) {
  const auto [model, program] = Lower("zero_stage: 3, framework: fsdp2");
  const std::vector<std::int64_t> sizes = SizesOf(model, 4);
  EXPECT_EQ(sizes.front(), 63 * 64 * 4);
  EXPECT_EQ(Requests(program), ListsOf(sizes, 1));
}

// One flat parameter for the root (embedding, last norm and head: 32,064 elements) and each of two
// blocks (39,552); the root's is the first.
TEST(FrameworkUpdate, ForeachOfFsdp1SeesFlatParameters) {
  const auto [model, program] = Lower("zero_stage: 3, framework: fsdp1");
  std::vector<std::int64_t> requests = Requests(program);
  ASSERT_EQ(requests.size(), 6u);
  EXPECT_LT(requests[0], requests[1]);
  EXPECT_EQ(requests[1], requests[2]);
  const std::int64_t all = requests[0] + requests[1] + requests[2];
  EXPECT_GE(4 * all, 4 * model.parameter_count());
  EXPECT_LT(4 * all, 4 * (model.parameter_count() + 12));
}

// A block has two norms, four small matrices and three larger ones. A rank has parts of some of
// them and of embedding, last norm and head; the rank with the most counts.
TEST(FrameworkUpdate, OriginalParametersAreSeenAsFarAsTheyReach) {
  const auto [model, program] = Lower("zero_stage: 3, framework: fsdp1, use_orig_params: true");
  const std::vector<std::int64_t> requests = Requests(program);
  EXPECT_GT(requests.size(), 2 * 6u);
  EXPECT_LE(requests.size(), 2 * (2 * 5 + 3u));
  std::int64_t all = 0;
  for (std::size_t i = 0; i < requests.size() / 2; ++i) {
    EXPECT_EQ(requests[i], -requests[requests.size() - 1 - i]);
    all += requests[i];
  }
  EXPECT_LE(all, model.parameter_count() + 3 * 64);
  EXPECT_GE(all, model.parameter_count() - 3 * 64);
}

// Root and denominator of a tensor, while the previous tensor's denominator still exists.
TEST(FrameworkUpdate, SingleKeepsADenominatorUntilTheNext) {
  const auto [model, program] =
      Lower("zero_stage: 0, framework: ddp", ", optimizer_implementation: single");
  std::vector<std::int64_t> expected;
  std::int64_t before = 0;
  for (const std::int64_t size : SizesOf(model, 1)) {
    expected.insert(expected.end(), {size, size, -size});
    if (before > 0) expected.push_back(-before);
    before = size;
  }
  expected.push_back(-before);
  EXPECT_EQ(Requests(program), expected);
}

TEST(FrameworkUpdate, FusedMakesNothing) {
  const auto [model, program] =
      Lower("zero_stage: 3, framework: fsdp2", ", optimizer_implementation: fused");
  EXPECT_TRUE(Requests(program).empty());
}

// DeepSpeed's optimizer has one tensor: its part of all parameters.
TEST(FrameworkUpdate, ForeachOfDeepSpeedSeesOnePartition) {
  const auto [model, program] =
      Lower("zero_stage: 1, framework: deepspeed", ", optimizer_implementation: foreach");
  const std::vector<std::int64_t> requests = Requests(program);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_GE(requests[0], model.parameter_count());
  EXPECT_LT(requests[0], model.parameter_count() + 64);
}

// Megatron's has the parts of parameters in one rank's part of the buckets.
TEST(FrameworkUpdate, ForeachOfMegatronSeesPartsOfParameters) {
  const auto [model, program] =
      Lower("zero_stage: 1, framework: megatron", ", optimizer_implementation: foreach");
  const std::vector<std::int64_t> requests = Requests(program);
  EXPECT_GT(requests.size(), 2u);
  EXPECT_LT(requests.size(), 2 * model.tensors.size());
}

// Kernels of one kind in the update, with their totals.
struct Kernels {
  std::int64_t count = 0, flops = 0, read = 0, host_waits = 0;
};
Kernels UpdateOf(const program::Program& program, KernelKind kind) {
  Kernels kernels;
  for (const program::Instruction& instruction : program.step) {
    if (instruction.phase != program::Phase::kOptimizer) continue;
    if (instruction.opcode == Opcode::kHostWaitEvent) ++kernels.host_waits;
    if (instruction.opcode != Opcode::kKernel) continue;
    const Kernel& kernel = program.kernels[instruction.operand];
    if (kernel.kind != kind) continue;
    ++kernels.count;
    kernels.flops += kernel.flops;
    kernels.read += kernel.read.count();
  }
  return kernels;
}

// One kernel per tensor, and the host waits for each. It reads gradients, parameters and moments.
// Gradients and parameters are FP32. Moments of matrices of at least 4,096 elements have one byte
// each and an FP32 scale per 256; those of the embedding and of norms have four.
TEST(FrameworkUpdate, BitsandbytesGoesTensorByTensor) {
  const Lowered lowered = LowerWith("adamw_8bit", "zero_stage: 0, framework: ddp");
  const Kernels update = UpdateOf(lowered.program, KernelKind::kOptimizer);
  EXPECT_EQ(update.count, static_cast<std::int64_t>(lowered.model.tensors.size()));
  EXPECT_EQ(update.host_waits, update.count);
  std::int64_t read = 0;
  for (const model::Tensor& tensor : lowered.model.tensors) {
    const bool embedding = tensor.name.find("embed") != std::string::npos;
    const std::int64_t blocks = (tensor.elements + 255) / 256;
    read += 8 * tensor.elements;
    read += tensor.elements < 4096 || embedding ? 8 * tensor.elements
                                                : 2 * (tensor.elements + 4 * blocks);
  }
  EXPECT_EQ(update.read, read);
}

// torchao's update has no host waits.
TEST(FrameworkUpdate, TorchaoDoesNotWait) {
  const Lowered lowered = LowerWith("adamw_8bit", "zero_stage: 3, framework: fsdp2");
  const Kernels update = UpdateOf(lowered.program, KernelKind::kOptimizer);
  EXPECT_EQ(update.count, static_cast<std::int64_t>(lowered.model.tensors.size()));
  EXPECT_EQ(update.host_waits, 0);
}

// Five steps of 2 m m n, 2 m m m and 2 m m n operations on each matrix of a block.
std::int64_t NewtonSchulzFlops(std::int64_t rows, std::int64_t columns) {
  const std::int64_t m = std::min(rows, columns), n = std::max(rows, columns);
  return 5 * (4 * m * m * n + 2 * m * m * m);
}

TEST(FrameworkUpdate, MuonMultipliesMatricesOfBlocks) {
  const Lowered lowered = LowerWith("muon", "zero_stage: 0, framework: ddp");
  std::int64_t flops = 0;
  for (const model::Tensor& tensor : lowered.model.tensors) {
    if (tensor.of_block && tensor.shape.size() == 2) {
      flops += NewtonSchulzFlops(tensor.shape[0], tensor.shape[1]);
    }
  }
  EXPECT_GT(flops, 0);
  EXPECT_EQ(UpdateOf(lowered.program, KernelKind::kGemm).flops, flops);
  EXPECT_EQ(UpdateOf(lowered.program, KernelKind::kGemm).count, 14 * 15);
}

// Over four ranks, eight matrices of 64 x 64 are two batches, four of 120 x 64 are one, and two of
// 64 x 120 are one batch that is filled up. A rank orthogonalizes one matrix of each batch;
// all-to-alls bring it there and back in 16 bits.
TEST(FrameworkUpdate, MuonOfShardsExchangesBatches) {
  const Lowered lowered = LowerWith("muon", "zero_stage: 3, framework: fsdp2");
  EXPECT_EQ(UpdateOf(lowered.program, KernelKind::kGemm).flops,
            2 * NewtonSchulzFlops(64, 64) + 2 * NewtonSchulzFlops(120, 64));
  std::int64_t exchanges = 0, bytes = 0;
  for (const program::Instruction& instruction : lowered.program.step) {
    if (instruction.opcode != Opcode::kCollective) continue;
    const program::Collective& collective = lowered.program.collectives[instruction.operand];
    if (collective.kind != CollectiveKind::kAllToAll) continue;
    ++exchanges;
    bytes += collective.bytes.count();
  }
  EXPECT_EQ(exchanges, 8);
  EXPECT_EQ(bytes, 2 * 2 * (2 * 64 * 64 + 2 * 120 * 64));
}

// With the update in backward, at most one unit's gradient exists; without it, all three do. The
// update is the same.
TEST(FrameworkUpdate, InBackwardOneGradientIsThereAtATime) {
  std::int64_t gradients[2] = {0, 0}, kernels[2] = {0, 0};
  for (const bool early : {false, true}) {
    const auto [model, program] =
        Lower("zero_stage: 3, framework: fsdp2",
              early ? ", optimizer_implementation: fused, optimizer_in_backward: true"
                    : ", optimizer_implementation: fused");
    std::int64_t alive = 0;
    for (const program::Instruction& instruction : program.step) {
      if (instruction.opcode == Opcode::kKernel) {
        const Kernel& kernel = program.kernels[instruction.operand];
        if (kernel.kind == KernelKind::kOptimizer) ++kernels[early];
        continue;
      }
      const bool allocates = instruction.opcode == Opcode::kAllocate;
      if (!allocates && instruction.opcode != Opcode::kRelease) continue;
      const program::Buffer& buffer = program.buffers[instruction.operand];
      if (!program.NameOf(buffer).ends_with("/gradient shard")) continue;
      alive += allocates ? 1 : -1;
      gradients[early] = std::max(gradients[early], alive);
    }
    EXPECT_EQ(alive, 0);
    if (early) {
      EXPECT_EQ(kernels[early], static_cast<std::int64_t>(model.tensors.size()));
    }
  }
  EXPECT_EQ(gradients[0], 3);
  EXPECT_EQ(gradients[1], 1);
  EXPECT_EQ(kernels[0], 1);
}

}  // namespace
}  // namespace stepcast::lowering
