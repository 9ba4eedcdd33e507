// Executes lowered programs of all sharding strategies on the GPUs of this machine, and compares
// them with plain data parallelism: the same bits, issued one by one and replayed as a graph. Runs
// with one rank, whose communicators have one rank, and with as many ranks as GPUs. Skipped without
// a GPU.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/runtime/cuda/backend.h"
#include "src/runtime/executor.h"
#include "src/runtime/job.h"
#include "src/scenario/load.h"
#include "src/validate/training_check.h"
#include "tests/samples/samples.h"

namespace stepcast::training {
namespace {

using validate::Gradients;
using validate::TrainPlainly;
using validate::Weights;

constexpr std::uint64_t kSeed = 20'240'301;
constexpr int kWarmup = 1;

constexpr const char* kLayers = R"(
  kind: layers
  layers:
    - {name: first, parameters: [13, 5], forward: 20 us, backward: 40 us, activation: 64 B}
    - {name: block, repeat: 2, parameters: [24, 7, 1], forward: 20 us, backward: 40 us,
       activation: 64 B}
  optimizer_step: 20 us
)";

// Products, fused attention (heads of 64) and other kernels.
constexpr const char* kTransformer = R"(
  kind: transformer
  family: gpt2
  num_hidden_layers: 2
  hidden_size: 128
  num_attention_heads: 2
  intermediate_size: 256
  vocab_size: 251
  max_position_embeddings: 64
)";

// Exchanges of expert-parallel ranks, in both directions.
constexpr const char* kExchanges = R"(
  kind: layers
  layers:
    - {name: block, repeat: 2, parameters: [24, 7], forward: 20 us, backward: 40 us,
       activation: 64 B, communication: {
         forward: [[all_to_all, expert, 4 KiB], [all_to_all, expert, 4 KiB]],
         backward: [[all_to_all, expert, 4 KiB], [all_to_all, expert, 4 KiB]]}}
  optimizer_step: 20 us
)";

struct Case {
  const char* model;
  std::string training;
  std::string data_parallel;
  bool graph = false;
  bool pool = true;
  std::string more{};  // sections

  // A graph has two instances, so with three replays one of them runs twice.
  int measured() const { return graph ? 3 : 2; }
};

scenario::Scenario Loaded(const Case& one, int ranks) {
  const std::string text = fmt::format(R"(
stepcast: 1
model: {}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 64, micro_batch_size: 2, optimizer: adamw, {}}}
data_parallel: {{{}}}
{}
)",
                                       one.model, ranks, one.training, one.data_parallel, one.more);
  static scenario::InputCache cache;  // files are read once
  auto scenario = scenario::LoadText(text, "test", {}, cache);
  STEPCAST_CHECK(scenario.has_value(), (text + Format(scenario.error())).c_str());
  return *scenario;
}

std::vector<Case> Cases(int ranks) {
  std::vector<std::string> plans = {
      "zero_stage: 0, framework: reference",
      "zero_stage: 1, framework: reference, bucket_size: 4 KiB",
      "zero_stage: 2, framework: reference",
      "zero_stage: 3, framework: reference, prefetch: 1",
      "zero_stage: 0, framework: ddp",
      "zero_stage: 0, framework: ddp, bucket_size: 4 KiB",
      "zero_stage: 3, framework: fsdp1",
      "zero_stage: 3, framework: fsdp1, limit_all_gathers: false, use_orig_params: true",
      "zero_stage: 3, framework: fsdp2",
      "zero_stage: 3, framework: fsdp2, reshard_after_forward: false",
  };
  if (ranks >= 4) {
    plans.push_back("zero_stage: 3, framework: fsdp1, shard_group_size: 2");
    plans.push_back("zero_stage: 3, framework: fsdp2, shard_group_size: 2");
  }
  std::vector<Case> cases;
  std::string framework;
  for (const std::string& plan : plans) {
    // Without a pool and with FP32 accumulation, the transformer runs only once per framework: its
    // plans differ in nothing relevant, and it is slow on emulated GPUs.
    const std::size_t at = plan.find("framework");
    const std::string own = plan.substr(at, plan.find(',', at) - at);
    const bool first = std::exchange(framework, own) != own;
    for (const bool pool : {true, false}) {
      cases.push_back({kLayers, "precision: bf16, gradient_accumulation: 2", plan, false, pool});
      if (!pool && !first) continue;
      cases.push_back(
          {kTransformer, "precision: bf16, gradient_accumulation: 1", plan, false, pool});
    }
    cases.push_back({kTransformer,
                     fmt::format("precision: fp32, gradient_accumulation: {}", first ? 2 : 1),
                     plan});
    cases.push_back({kTransformer, "precision: bf16, gradient_accumulation: 2", plan, true});
  }
  // Rows of experts, equally many for each rank, or most for the first.
  for (const char* load : {"", "experts: {imbalance: 1.5}"}) {
    if (ranks < 2) break;
    cases.push_back({kExchanges, "precision: bf16, gradient_accumulation: 2",
                     "zero_stage: 1, framework: megatron", false, true,
                     fmt::format("parallelism: {{expert: {}}}\n{}", ranks, load)});
  }
  return cases;
}

// In some steps the host takes part, so they cannot be a graph.
bool CanBeAGraph(const program::Program& program) {
  for (const program::Instruction& instruction : program.step) {
    if (instruction.opcode == program::Opcode::kHostTask ||
        instruction.opcode == program::Opcode::kHostWaitEvent) {
      return false;
    }
  }
  return true;
}

std::string Train(const Case& one, const scenario::Scenario& scenario, const Weights& plain,
                  runtime::Backend& backend, runtime::Job& job) {
  const program::Program program =
      lowering::LowerRank(scenario, {.rank = job.place().rank, .data_flow = true});
  if (one.graph && !CanBeAGraph(program)) return "";
  runtime::DeviceOptions options;
  options.gradients = runtime::GradientRule::kSmallIntegers;
  options.seed = kSeed;
  options.pool = one.pool;
  auto device = backend.MakeDevice(program, job, options);
  if (!device) return device.error().message;
  runtime::ExecuteOptions steps;
  steps.warmup_steps = kWarmup;
  steps.measured_steps = one.measured();
  steps.graph = one.graph;
  runtime::Progress progress;
  const auto measured = runtime::Execute(program, **device, job, steps, progress);
  if (!measured) return measured.error().message;

  for (const program::StatePart& part : program.data_flow.state) {
    if (part.role == program::StateRole::kMoment) continue;
    const bool master = part.role == program::StateRole::kMaster;
    const std::vector<float>& expected = master ? plain.masters : plain.parameters;
    const auto values = (*device)->Read(part.place, part.elements);
    if (!values) return values.error().message;
    for (std::int64_t i = 0; i < part.elements; ++i) {
      if ((*values)[i] == expected[part.first_element + i]) continue;
      return fmt::format("rank {}: {} of element {} is {}, not {}", job.place().rank,
                         master ? "master copy" : "parameter", part.first_element + i, (*values)[i],
                         expected[part.first_element + i]);
    }
  }
  const program::Timeline& timeline = measured->timeline;
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.ready > record.start || record.start > record.end) return "times are out of order";
  }
  if (timeline.step_ends.size() != static_cast<std::size_t>(one.measured()))
    return "steps are missing";
  const runtime::MemoryUse memory = measured->memory;
  if (memory.peak <= Bytes(0) || memory.peak > memory.reserved) return "more in use than reserved";
  return "";
}

// The machine's backend; null, with the reason, without a GPU.
std::unique_ptr<runtime::Backend> Gpus(std::string& why_not) {
  auto backend = runtime::cuda::MakeCudaBackend();
  if (backend) return std::move(*backend);
  why_not = backend.error().message;
  return nullptr;
}

void ExpectSameBits(runtime::Backend& backend, int ranks) {
  // Emulated GPUs are slow: of the plans for several GPUs, two GPUs run every second one and four
  // GPUs the others.
  const std::vector<Case> cases = Cases(ranks);
  const std::size_t stride = ranks == 1 ? 1 : Samples<std::size_t>(2, 1);
  for (std::size_t i = static_cast<std::size_t>(ranks) / 2 % stride; i < cases.size();
       i += stride) {
    const Case& one = cases[i];
    const scenario::Scenario scenario = Loaded(one, ranks);
    const Weights plain =
        TrainPlainly(scenario, Gradients::kSmallIntegers, kWarmup + one.measured(), kSeed);
    auto jobs = runtime::MakeThreadJobs(ranks);
    std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        wrong[rank] = Train(one, scenario, plain, backend, *jobs[rank]);
        jobs[rank].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& what : wrong) {
      EXPECT_EQ(what, "") << one.model << one.training << "; " << one.data_parallel
                          << (one.graph ? "; graph" : "") << (one.pool ? "" : "; no pool");
    }
  }
}

TEST(CudaTraining, OneGpuTrainsAsPlainDataParallelism) {
  std::string why_not;
  const auto backend = Gpus(why_not);
  if (backend == nullptr) GTEST_SKIP() << why_not;
  ExpectSameBits(*backend, 1);
}

TEST(CudaTraining, AllGpusTrainAsPlainDataParallelism) {
  std::string why_not;
  const auto backend = Gpus(why_not);
  if (backend == nullptr) GTEST_SKIP() << why_not;
  // A power of two, for exact averages.
  const auto ranks =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(backend->MaxLocalRanks())));
  if (ranks < 2) GTEST_SKIP() << "there is one GPU";
  ExpectSameBits(*backend, ranks);
}

// A limit below the step's memory.
TEST(CudaTraining, OutOfMemoryNamesTheBuffer) {
  std::string why_not;
  const auto backend = Gpus(why_not);
  if (backend == nullptr) GTEST_SKIP() << why_not;
  const Case one{kTransformer, "precision: bf16, gradient_accumulation: 1",
                 "zero_stage: 0, framework: ddp"};
  const program::Program program = lowering::LowerRank(Loaded(one, 1), {.data_flow = true});
  auto jobs = runtime::MakeThreadJobs(1);
  for (const bool beyond_the_gpu : {false, true}) {
    program::Program larger = program;
    runtime::DeviceOptions options;
    if (beyond_the_gpu) {
      // 4 TiB, more than any GPU has.
      larger.buffers[larger.prologue.front().operand].size = GiB(4096);
    } else {
      options.memory_limit = MiB(1);
    }
    auto device = backend->MakeDevice(larger, *jobs[0], options);
    ASSERT_TRUE(device) << device.error().message;
    runtime::Progress progress;
    const auto measured = runtime::Execute(larger, **device, *jobs[0], {}, progress);
    ASSERT_FALSE(measured);
    EXPECT_TRUE(measured.error().out_of_memory);
    EXPECT_NE(measured.error().message.find("out of memory: buffer '"), std::string::npos)
        << measured.error().message;
  }
}

// The device's reported memory equals the memory missing according to CUDA.
TEST(CudaTraining, ReservedMemoryIsWhatTheGpuMisses) {
  std::string why_not;
  const auto backend = Gpus(why_not);
  if (backend == nullptr) GTEST_SKIP() << why_not;
  const Case one{kTransformer, "precision: bf16, gradient_accumulation: 1",
                 "zero_stage: 0, framework: ddp"};
  program::Program program = lowering::LowerRank(Loaded(one, 1), {.data_flow = true});
  const program::Index large = program.prologue.front().operand;
  program.buffers[large].size += GiB(2);
  auto jobs = runtime::MakeThreadJobs(1);
  for (const bool pool : {true, false}) {
    runtime::DeviceOptions options;
    options.pool = pool;
    auto device = backend->MakeDevice(program, *jobs[0], options);
    ASSERT_TRUE(device) << device.error().message;
    std::size_t before = 0, after = 0, total = 0;
    ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
    ASSERT_TRUE((*device)->Allocate(large, 0));
    ASSERT_TRUE((*device)->Synchronise());
    ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
    const double gone = static_cast<double>(before - after);
    const double reserved = static_cast<double>((*device)->Memory().reserved.count());
    EXPECT_GE((*device)->Memory().peak, GiB(2));
    EXPECT_NEAR(reserved / gone, 1.0, 0.03) << reserved << " of " << gone;
    ASSERT_TRUE((*device)->Release(large));
  }
}

}  // namespace
}  // namespace stepcast::training
