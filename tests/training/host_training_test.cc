// Executes lowered programs of all sharding strategies on the host backend, and compares them with
// plain data parallelism: the same bits. Ranks are threads of this process; a second test restarts
// this binary under mpirun, where ranks are processes.

#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/diagnostic.h"
#include "src/lowering/lowering.h"
#include "src/runtime/executor.h"
#include "src/runtime/host/backend.h"
#include "src/runtime/job.h"
#include "src/runtime/mpi_session.h"
#include "src/scenario/load.h"
#include "src/validate/training_check.h"
#include "tests/proofs/data_flow_validator.h"

namespace stepcast::training {
namespace {

using validate::Gradients;
using validate::TrainPlainly;
using validate::Weights;

constexpr std::uint64_t kSeed = 20'240'301;
constexpr int kWarmup = 1;
constexpr int kMeasured = 2;

// Odd sizes, and a layer without parameters. Times are short, since only values are checked.
constexpr const char* kLayers = R"(
  kind: layers
  layers:
    - {name: first, parameters: [13, 5], forward: 20 us, backward: 40 us, activation: 64 B}
    - {name: plain, parameters: [], forward: 20 us, backward: 40 us, activation: 64 B}
    - {name: block, repeat: 2, parameters: [24, 7, 1], forward: 20 us, backward: 40 us,
       activation: 64 B}
  optimizer_step: 20 us
)";

// The head reads the embedding's tensor; kernels are products, attention and others.
constexpr const char* kTied = R"(
  kind: transformer
  family: gpt2
  num_hidden_layers: 2
  hidden_size: 8
  num_attention_heads: 2
  intermediate_size: 12
  vocab_size: 11
  max_position_embeddings: 8
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
  std::string more{};  // sections
};

scenario::Scenario Loaded(const Case& one, int ranks) {
  const std::string text = fmt::format(R"(
stepcast: 1
model: {}
cluster:
  topology: {{kind: flat, devices: {}, gpu: h100-sxm, link: {{latency: 5 us, bandwidth: 25 GB/s}}}}
training: {{sequence_length: 8, micro_batch_size: 1, optimizer: adamw, {}}}
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
  std::vector<std::string> plans;
  for (const char* stage : {"0", "1", "2", "3"}) {
    plans.push_back(fmt::format("zero_stage: {}, framework: reference", stage));
    plans.push_back(fmt::format("zero_stage: {}, framework: reference, bucket_size: 64 B", stage));
  }
  plans.push_back("zero_stage: 3, framework: reference, prefetch: 2, accumulate_unsharded: true");
  plans.push_back("zero_stage: 0, framework: ddp");
  plans.push_back("zero_stage: 0, framework: ddp, bucket_size: 64 B");
  plans.push_back("zero_stage: 3, framework: fsdp2");
  plans.push_back("zero_stage: 3, framework: fsdp2, prefetch: 2");
  plans.push_back("zero_stage: 3, framework: fsdp2, reshard_after_forward: false");
  plans.push_back("zero_stage: 3, framework: fsdp1");
  plans.push_back("zero_stage: 2, framework: fsdp1, forward_prefetch: true");
  plans.push_back("zero_stage: 3, framework: fsdp1, accumulate_unsharded: true");
  plans.push_back(
      "zero_stage: 3, framework: fsdp1, use_orig_params: true, backward_prefetch: post");
  if (ranks >= 4) {
    plans.push_back("zero_stage: 3, framework: fsdp1, shard_group_size: 2");
    for (const char* framework : {"reference", "fsdp2"}) {
      plans.push_back(fmt::format("zero_stage: 3, framework: {}, shard_group_size: 2", framework));
      plans.push_back(
          fmt::format("zero_stage: 3, framework: {}, reshard_after_forward: 2", framework));
    }
    plans.push_back("zero_stage: 2, framework: reference, shard_group_size: 2");
  }
  std::vector<Case> cases;
  for (const std::string& plan : plans) {
    cases.push_back({kLayers, "precision: bf16, gradient_accumulation: 2", plan});
    cases.push_back({kTied, "precision: bf16, gradient_accumulation: 1", plan});
    cases.push_back({kTied, "precision: fp32, gradient_accumulation: 2", plan});
  }
  // Clipped gradients, hooks, and work of the host in the step.
  const std::string clips = "precision: bf16, gradient_accumulation: 2, gradient_clipping: 1";
  for (const char* plan :
       {"zero_stage: 0, framework: ddp", "zero_stage: 2, framework: reference",
        "zero_stage: 3, framework: fsdp1", "zero_stage: 3, framework: fsdp2",
        "zero_stage: 1, framework: megatron", "zero_stage: 2, framework: deepspeed"}) {
    cases.push_back({kTied, clips, plan});
  }
  for (const char* hook : {"fp16_compress", "bf16_compress"}) {
    cases.push_back({kTied, "precision: tf32, gradient_accumulation: 2",
                     fmt::format("zero_stage: 0, framework: ddp, comm_hook: {}", hook)});
  }
  cases.push_back(
      {kTied,
       "precision: bf16, gradient_accumulation: 2, data_loading: {time: 10 us, workers: "
       "1}, checkpoint_saving: {every: 10, bandwidth: 1 GB/s}",
       "zero_stage: 3, framework: fsdp2"});
  if (ranks < 2) return cases;
  // Rows of experts, equally many for each rank, or most or nearly all for the first.
  std::vector<std::string> loads = {"", "experts: {imbalance: 1.5}"};
  loads.push_back(fmt::format("experts: {{imbalance: {}}}", ranks));
  for (const std::string& load : loads) {
    cases.push_back({kExchanges, "precision: bf16, gradient_accumulation: 2",
                     "zero_stage: 1, framework: megatron",
                     fmt::format("parallelism: {{expert: {}}}\n{}", ranks, load)});
  }
  return cases;
}

// Trains this rank's part. Returns the first mistake, or an empty string.
std::string Train(const scenario::Scenario& scenario, const Weights& plain, runtime::Job& job) {
  const program::Program program =
      lowering::LowerRank(scenario, {.rank = job.place().rank, .data_flow = true});
  const std::vector<std::string> flaws = program::ValidateDataFlow(program);
  if (!flaws.empty()) return flaws.front();
  const auto backend = runtime::host::MakeHostBackend();
  runtime::DeviceOptions options;
  options.gradients = runtime::GradientRule::kSmallIntegers;
  options.seed = kSeed;
  auto device = backend->MakeDevice(program, job, options);
  if (!device) return device.error().message;
  runtime::ExecuteOptions steps;
  steps.warmup_steps = kWarmup;
  steps.measured_steps = kMeasured;
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
      const float right = expected[part.first_element + i];
      if ((*values)[i] == right) continue;
      return fmt::format("rank {}: {} of element {} is {}, not {}", job.place().rank,
                         master ? "master copy" : "parameter", part.first_element + i, (*values)[i],
                         right);
    }
  }
  // All operations of the measured steps have times, and none ended before it started.
  std::size_t operations = 0;
  for (const program::Instruction& instruction : program.step) {
    using program::Opcode;
    if (instruction.opcode == Opcode::kKernel || instruction.opcode == Opcode::kCopy ||
        instruction.opcode == Opcode::kCollective || instruction.opcode == Opcode::kHostTask) {
      ++operations;
    }
  }
  const program::Timeline& timeline = measured->timeline;
  if (timeline.operations.size() != operations * kMeasured) return "operations are missing";
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.ready > record.start || record.start > record.end) return "times are out of order";
  }
  if (timeline.step_ends.size() != kMeasured) return "steps are missing";
  return "";
}

class HostTraining : public testing::TestWithParam<int> {};

TEST_P(HostTraining, EveryPlanTrainsAsPlainDataParallelism) {
  const int ranks = GetParam();
  for (const Case& one : Cases(ranks)) {
    const scenario::Scenario scenario = Loaded(one, ranks);
    const Weights plain =
        TrainPlainly(scenario, Gradients::kSmallIntegers, kWarmup + kMeasured, kSeed);
    auto jobs = runtime::MakeThreadJobs(ranks);
    std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        wrong[rank] = Train(scenario, plain, *jobs[rank]);
        jobs[rank].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& what : wrong) {
      EXPECT_EQ(what, "") << one.model << one.training << "; " << one.data_parallel;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostTraining, testing::Values(1, 2, 4));

constexpr int kProcesses = 4;

TEST(HostTraining, EveryPlanTrainsAsPlainDataParallelismUnderMpirun) {
  if (!runtime::MpiSession::Available()) GTEST_SKIP() << "built without MPI";
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "MPI's own libraries are not built for ThreadSanitizer";
#endif
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not there";
  char own[PATH_MAX] = {};
  ASSERT_GT(::readlink("/proc/self/exe", own, sizeof own - 1), 0);
  const std::string command = fmt::format(
      "mpirun --oversubscribe --allow-run-as-root --mca btl self,vader,tcp "
      "--mca mpi_yield_when_idle 1 -n {} '{}' --rank",
      kProcesses, own);
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace

int TrainAsProcess() {
  std::string wrong;
  {
    auto job = runtime::JoinMpi();
    if (!job) {
      wrong = job.error().message;
    } else {
      const int ranks = (*job)->place().ranks;
      for (const Case& one : Cases(ranks)) {
        const scenario::Scenario scenario = Loaded(one, ranks);
        const Weights plain =
            TrainPlainly(scenario, Gradients::kSmallIntegers, kWarmup + kMeasured, kSeed);
        wrong = Train(scenario, plain, **job);
        if (wrong.empty()) continue;
        wrong += " (" + one.training + "; " + one.data_parallel + ")";
        break;
      }
    }
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    runtime::MpiSession* session = runtime::MpiSession::Current();
    if (!wrong.empty() && session != nullptr) session->Abort(1);
  }
  if (runtime::MpiSession* session = runtime::MpiSession::Current()) session->Finish();
  return wrong.empty() ? 0 : 1;
}

}  // namespace stepcast::training

int main(int count, char** words) {
  if (count > 1 && std::string(words[1]) == "--rank") return stepcast::training::TrainAsProcess();
  testing::InitGoogleTest(&count, words);
  return RUN_ALL_TESTS();
}
