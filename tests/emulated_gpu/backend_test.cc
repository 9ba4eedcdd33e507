// Tests properties of src/runtime/cuda that a GPU would not show: number and order of its calls,
// and failures of calls. The GPUs are emulated, so the test says nothing about speed.

#include "src/runtime/cuda/backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/runtime/executor.h"
#include "src/runtime/job.h"
#include "tests/emulated_gpu/emulation.h"
#include "tests/examples/test_program.h"

namespace stepcast::runtime::cuda {
namespace {

using program::Category;
using program::Effect;
using program::EffectKind;
using program::Index;
using program::TestProgram;

// A program with every kind of kernel and effect, collectives with conversions, a copy and a kernel
// of given time, on two streams.
program::Program EveryKind(const std::vector<int>& group, int moves) {
  TestProgram program(2);
  const Index data = program.AddCommunicator("data", group);
  const Index one = program.AddBuffer("one", KiB(64), Category::kParameter);
  const Index two = program.AddBuffer("two", KiB(64), Category::kGradient);
  const Index three = program.AddBuffer("three", KiB(64), Category::kOptimizer);
  const Index there = program.AddEvent("there");
  const Index back = program.AddEvent("back");
  const Index kernel = program.AddKernel("kernel");
  program.program().kernels[kernel] = {
      .name = "kernel", .kind = KernelKind::kMemoryBound, .read = KiB(80), .written = KiB(80)};
  program.program().kernels.push_back({.name = "product",
                                       .kind = KernelKind::kGemm,
                                       .data_type = DataType::kBf16,
                                       .m = 16,
                                       .n = 16,
                                       .k = 16,
                                       .flops = 2 * 16 * 16 * 16,
                                       .read = Bytes(1024),
                                       .written = Bytes(512)});
  const auto product = static_cast<Index>(program.program().kernels.size() - 1);
  program.Allocate(0, one).Allocate(0, two).Allocate(0, three).Step();
  program.Run(0, kernel).Run(0, product).Record(0, there).Wait(1, there);
  program.Communicate(
      1, program.AddCollective(CollectiveKind::kAllReduce, data, Bytes(2 * 1000), DataType::kBf16));
  program.Record(1, back).Wait(0, back);
  program.Copy(0, program::CopyDirection::kDeviceToHost, KiB(4)).Run(0, kernel);
  program::Program& written = program.program();
  const auto at = [](Index buffer, std::int64_t first) {
    return program::Elements{buffer, Bytes(4 * first), DataType::kFp32};
  };
  std::vector<std::vector<Effect>> effects(written.step.size());
  for (int i = 0; i < moves; ++i) {
    effects[0].push_back({.kind = EffectKind::kGradient,
                          .target = at(two, 100 * i),
                          .source = at(one, 100 * i),
                          .elements = 100});
  }
  effects[4].push_back({.kind = EffectKind::kCollective,
                        .target = at(two, 0),
                        .source = at(two, 0),
                        .elements = 1000});
  effects[8] = {{.kind = EffectKind::kSquares,
                 .target = at(three, 8000),
                 .source = at(two, 0),
                 .elements = 1000},
                {.kind = EffectKind::kClip,
                 .target = at(two, 0),
                 .source = at(three, 8000),
                 .elements = 1000},
                {.kind = EffectKind::kUpdate,
                 .target = at(one, 0),
                 .source = at(two, 0),
                 .states = at(three, 0),
                 .state_stride = 1000,
                 .elements = 1000}};
  for (const std::vector<Effect>& own : effects) {
    written.data_flow.first.push_back(static_cast<Index>(written.data_flow.effects.size()));
    written.data_flow.effects.insert(written.data_flow.effects.end(), own.begin(), own.end());
  }
  written.data_flow.first.push_back(static_cast<Index>(written.data_flow.effects.size()));
  written.data_flow.state.push_back(
      {.role = program::StateRole::kParameter, .place = at(one, 0), .elements = 1000});
  written.data_flow.state.push_back(
      {.role = program::StateRole::kMoment, .place = at(three, 0), .elements = 2000});
  return std::move(written);
}

Attempt<void> RunOnce(Backend& backend, const program::Program& program, Job& job, bool graph,
                      bool pool = true, int steps = 2) {
  DeviceOptions options;
  options.pool = pool;
  auto device = backend.MakeDevice(program, job, options);
  if (!device) return tl::make_unexpected(device.error());
  Progress progress;
  auto measured = Execute(
      program, **device, job,
      {.warmup_steps = 1, .measured_steps = steps, .barrier = false, .graph = graph}, progress);
  if (!measured) return tl::make_unexpected(measured.error());
  return {};
}

std::unique_ptr<Backend> MustMake() {
  auto backend = MakeCudaBackend();
  EXPECT_TRUE(backend) << backend.error().message;
  return std::move(*backend);
}

int LaunchesWith(int gradients) {
  const auto backend = MustMake();
  auto jobs = MakeThreadJobs(1);
  emulated::FailCall(0);
  const auto ran = RunOnce(*backend, EveryKind({0}, gradients), *jobs[0], false);
  EXPECT_TRUE(ran) << ran.error().message;
  return emulated::CallsOf("cudaLaunchKernelEx");
}

// An operation with many effects is one launch.
TEST(CudaBackend, EffectsOfAnOperationAreOneLaunch) {
  EXPECT_EQ(LaunchesWith(10), LaunchesWith(1));
}

// Whichever call of a device fails first, the failure is reported and everything is freed (checked
// by the address sanitizer's build of this test).
TEST(CudaBackend, EveryCallMayFail) {
  const program::Program program = EveryKind({0}, 3);
  for (const auto& [graph, pool] :
       {std::pair(false, true), std::pair(false, false), std::pair(true, true)}) {
    const auto backend = MustMake();
    auto jobs = MakeThreadJobs(1);
    int failures = 0;
    for (int call = 1;; ++call) {
      emulated::FailCall(call);
      const auto ran = RunOnce(*backend, program, *jobs[0], graph, pool, 1);
      const std::string failed = emulated::FailedCall();
      emulated::FailCall(0);
      if (failed.empty()) {
        EXPECT_TRUE(ran) << ran.error().message;
        break;
      }
      if (ran) continue;  // the failed call was retried, or was at the end
      ++failures;
      EXPECT_NE(ran.error().message, "");
    }
    EXPECT_GT(failures, 100) << "graph " << graph << " pool " << pool;
  }
}

// A pipeline of two stages that returns the first stage's data: the final data has passed through
// both.
TEST(CudaBackend, MessagesMoveBytes) {
  const auto backend = MustMake();
  auto jobs = MakeThreadJobs(2);
  emulated::FailCall(0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      TestProgram program(2);
      program.program().rank = rank;
      const Index pipeline = program.AddCommunicator("pipeline", {0, 1});
      const Index kept = program.AddBuffer("kept", KiB(4), Category::kParameter);
      const Index there = program.AddBuffer("there", KiB(4));
      const Index back = program.AddBuffer("back", KiB(4));
      const Index received = program.AddEvent("received");
      const Index send = program.AddExchange(pipeline, {TestProgram::Send(1 - rank, KiB(4))});
      const Index receive = program.AddExchange(pipeline, {TestProgram::Receive(1 - rank, KiB(4))});
      const Index both = program.AddExchange(
          pipeline, {TestProgram::Receive(1 - rank, KiB(2)), TestProgram::Send(1 - rank, KiB(2))});
      program.Allocate(0, kept).Allocate(0, there).Allocate(0, back).Step();
      const auto first = [&](Index buffer) { return TestProgram::Read(buffer, 0, 2048); };
      const auto second = [&](Index buffer) { return TestProgram::Write(buffer, 2048, 4096); };
      if (rank == 0) {
        program.Exchange(0, send, {program.Read(kept)});
        program.Exchange(1, receive, {program.Write(back)}).Record(1, received);
        program.Wait(0, received);
      } else {
        program.Exchange(0, receive, {program.Write(there)});
        program.Exchange(0, send, {program.Read(there)});
      }
      program.Exchange(0, both, {second(back), first(rank == 0 ? kept : there)});
      program.program().data_flow.first.assign(program.program().step.size() + 1, 0);
      program.program().data_flow.state.push_back({.role = program::StateRole::kParameter,
                                                   .place = {kept, Bytes(0), DataType::kFp32},
                                                   .first_element = 0,
                                                   .elements = 1024});
      auto device = backend->MakeDevice(program.program(), *jobs[rank], {});
      ASSERT_TRUE(device) << device.error().message;
      Progress progress;
      const auto measured = Execute(program.program(), **device, *jobs[rank],
                                    {.warmup_steps = 1, .measured_steps = 2}, progress);
      ASSERT_TRUE(measured) << measured.error().message;
      const auto given = (*device)->Read({kept, Bytes(0), DataType::kFp32}, 1024);
      const auto got = (*device)->Read({rank == 0 ? back : there, Bytes(0), DataType::kFp32}, 512);
      const auto last = (*device)->Read({back, Bytes(2048), DataType::kFp32}, 512);
      ASSERT_TRUE(given && got && last);
      // Both ranks hold the same initial parameters.
      EXPECT_TRUE(std::equal(got->begin(), got->end(), given->begin()));
      EXPECT_TRUE(std::equal(last->begin(), last->end(), given->begin()));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// After a step's operations have run, timing makes no new events, and no launch waits for another.
TEST(CudaBackend, TimingEventsAreUsedAgain) {
  const auto backend = MustMake();
  auto jobs = MakeThreadJobs(1);
  const program::Program program = EveryKind({0}, 1);
  const auto events = [&](int steps) {
    emulated::FailCall(0);
    EXPECT_TRUE(RunOnce(*backend, program, *jobs[0], false, true, steps));
    return emulated::CallsOf("cudaEventCreateWithFlags");
  };
  // A GPU queues some hundred operations at a time.
  const int some = events(100);
  EXPECT_LT(events(200), some + 200);
}

// In a graph, an operation begins where the previous one in its stream ended: one event each, and
// one more at the beginning and after each wait.
TEST(CudaBackend, AnEndIsTheNextBeginning) {
  const auto backend = MustMake();
  auto jobs = MakeThreadJobs(1);
  TestProgram program(1);
  const Index kernel = program.AddKernel("kernel");
  program.program().kernels[kernel] = {
      .name = "kernel", .kind = KernelKind::kMemoryBound, .read = KiB(1), .written = KiB(1)};
  program.Step();
  for (int i = 0; i < 50; ++i) program.Run(0, kernel);
  emulated::FailCall(0);
  EXPECT_TRUE(RunOnce(*backend, program.program(), *jobs[0], true));
  EXPECT_EQ(emulated::CallsOf("cudaEventRecordWithFlags"), 51);
}

void OnRanks(int ranks, Backend& backend, const program::Program& program) {
  auto jobs = MakeThreadJobs(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto ran = RunOnce(backend, program, *jobs[rank], false);
      EXPECT_TRUE(ran) << ran.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Ranks connect once; later programs reuse the communicators. The emulated GPUs end the test if a
// kernel is loaded while a collective runs.
TEST(CudaBackend, CommunicatorsAreKept) {
  const auto backend = MustMake();
  ASSERT_EQ(backend->MaxLocalRanks(), 2);
  const program::Program program = EveryKind({0, 1}, 2);
  emulated::FailCall(0);
  OnRanks(2, *backend, program);
  EXPECT_EQ(emulated::CallsOf("ncclCommInitRankConfig"), 2);
  OnRanks(2, *backend, program);
  EXPECT_EQ(emulated::CallsOf("ncclCommInitRankConfig"), 2);
}

// A program without communication does not need NCCL.
TEST(CudaBackend, WithoutCommunicatorsNcclIsNotStarted) {
  const auto backend = MustMake();
  auto jobs = MakeThreadJobs(1);
  TestProgram program(1);
  const Index kernel = program.AddKernel("kernel");
  program.program().kernels[kernel].given = Microseconds(5);
  program.Step().Run(0, kernel);
  emulated::FailCall(0);
  EXPECT_TRUE(RunOnce(*backend, program.program(), *jobs[0], false));
  EXPECT_EQ(emulated::CallsOf("ncclGetUniqueId"), 0);
  EXPECT_EQ(emulated::CallsOf("ncclCommInitRankConfig"), 0);
}

// Two threads of a process that sees one GPU.
TEST(CudaBackend, ARankWithoutAGpuOfItsOwnIsNamed) {
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  const auto backend = MustMake();
  unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_EQ(backend->MaxLocalRanks(), 1);
  TestProgram program(1);
  program.Step();
  auto jobs = MakeThreadJobs(2);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto device = backend->MakeDevice(program.program(), *jobs[rank], {});
      if (!device) said[rank] = device.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& one : said) {
    EXPECT_NE(one.find("every rank needs a separate GPU, but rank 1 has no GPU"), std::string::npos)
        << one;
  }
}

// A job of several processes, each of which sees its own GPU; this is rank `rank`.
class OneOfMany final : public Job {
 public:
  explicit OneOfMany(int rank) {
    place_.rank = place_.local_rank = rank;
    place_.ranks = place_.local_ranks = 4;
    place_.host = "node";
  }
  const Place& place() const override { return place_; }
  Attempt<void> Barrier() override { return {}; }
  Attempt<std::vector<std::string>> Gather(std::string bytes) override {
    std::vector<std::string> all;
    for (int rank = 0; rank < 4; ++rank) all.push_back(bytes + std::to_string(rank));
    return all;
  }
  Attempt<std::string> Broadcast(std::string bytes) override { return bytes; }

 private:
  Place place_;
};

TEST(CudaBackend, AProcessThatSeesOneGpuTakesIt) {
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  const auto backend = MustMake();
  TestProgram program(1);
  program.Step();
  OneOfMany job(3);
  const auto device = backend->MakeDevice(program.program(), job, {});
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_TRUE(device) << device.error().message;
}

}  // namespace
}  // namespace stepcast::runtime::cuda
