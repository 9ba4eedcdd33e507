#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/executor.h"
#include "src/runtime/host/backend.h"
#include "src/runtime/job.h"
#include "tests/examples/test_program.h"

namespace stepcast::runtime::host {
namespace {

using program::TestProgram;

Attempt<Measurement> RunAlone(const program::Program& program, const DeviceOptions& options = {}) {
  auto jobs = MakeThreadJobs(1);
  const auto backend = MakeHostBackend();
  auto device = backend->MakeDevice(program, *jobs[0], options);
  if (!device) return tl::unexpected(device.error());
  Progress progress;
  ExecuteOptions steps;
  steps.warmup_steps = 1;
  steps.measured_steps = 2;
  return Execute(program, **device, *jobs[0], steps, progress);
}

TEST(HostDevice, AGivenKernelTakesItsTimeAndStreamsOverlap) {
  TestProgram program(2);
  program.Step();
  const auto ready = program.AddEvent("ready");
  const auto slow = program.AddKernel("slow");
  program.program().kernels[slow].given = Milliseconds(4);
  program.Run(0, slow).Record(0, ready).Wait(1, ready).Run(1, slow).Run(0, slow);
  const auto measured = RunAlone(program.program());
  ASSERT_TRUE(measured.has_value()) << measured.error().message;
  const program::Timeline& timeline = measured->timeline;
  ASSERT_EQ(timeline.operations.size(), 6u);
  ASSERT_EQ(timeline.step_ends.size(), 2u);
  EXPECT_LE(timeline.step_ends[0], timeline.step_ends[1]);
  Time first_end;
  for (const program::OperationRecord& record : timeline.operations) {
    EXPECT_GE(record.end - record.start, Milliseconds(4));
    EXPECT_GE(record.start, Time());
    EXPECT_LE(record.issued, record.end);
    if (record.step != 0) continue;
    if (record.instruction == 0) first_end = record.end;
    // Each of the next two waits only for the first.
    if (record.instruction == 3) {
      EXPECT_GE(record.start, first_end);
    }
  }
  EXPECT_EQ(measured->memory.peak, Bytes(0));
}

TEST(HostDevice, ABufferThatDoesNotFitIsNamedWithItsSize) {
  TestProgram program(1);
  program.AddBuffer("layers.3.full", Bytes(50'000'000));
  program.Allocate(0, 0);
  program.Step();
  DeviceOptions options;
  options.memory_limit = MiB(40);
  const auto measured = RunAlone(program.program(), options);
  ASSERT_FALSE(measured.has_value());
  EXPECT_TRUE(measured.error().out_of_memory);
  EXPECT_EQ(measured.error().message,
            "rank 0, before the first step, allocate 'layers.3.full' on stream 'compute': out of "
            "memory: 'layers.3.full' needs 50000000 bytes; 0 bytes are in use, and the limit is "
            "reached");
}

TEST(HostDevice, MeasuresWhatBuffersHave) {
  TestProgram program(1);
  const auto kept = program.AddBuffer("kept", Bytes(1000));
  const auto passing = program.AddBuffer("passing", Bytes(20'000));
  program.Allocate(0, kept);
  program.Step();
  program.Allocate(0, passing).Kernel(0, "k", {program.Write(passing)}).Release(passing);
  const auto measured = RunAlone(program.program());
  ASSERT_TRUE(measured.has_value()) << measured.error().message;
  EXPECT_EQ(measured->memory.peak, Bytes(21'000));
  // One page and five; the second step reuses the memory that the first released.
  EXPECT_EQ(measured->memory.reserved, Bytes(6 * 4096));
  ASSERT_EQ(measured->timeline.memory.size(), 4u);
  EXPECT_EQ(measured->timeline.memory[0].instruction, 0u);
  EXPECT_EQ(measured->timeline.memory[1].instruction, 2u);
  EXPECT_EQ(measured->timeline.memory[3].step, 1u);
}

// In each step, a stage receives the data that its neighbor has sent. The message is the same in
// both ranks' records, and starts when the later rank is ready.
TEST(HostDevice, MessagesMoveBytes) {
  auto jobs = MakeThreadJobs(2);
  std::vector<program::Timeline> timelines(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      TestProgram program(1);
      program.program().rank = rank;
      const auto pipeline = program.AddCommunicator("pipeline", {0, 1});
      const auto kept = program.AddBuffer("kept", KiB(4), program::Category::kParameter);
      const auto got = program.AddBuffer("got", KiB(8));
      const auto late = program.AddKernel("late");
      program.program().kernels[late].given = Milliseconds(rank == 0 ? 8 : 0);
      const std::vector<program::Message> messages = {TestProgram::Send(1, KiB(4)),
                                                      TestProgram::Receive(-1, KiB(4))};
      const auto shift = program.AddExchange(pipeline, messages, program::PeerNaming::kDistance);
      program.Allocate(0, kept).Allocate(0, got).Step();
      program.Run(0, late).Exchange(0, shift,
                                    {program.Read(kept), TestProgram::Write(got, 4096, 8192)});
      program.program().data_flow.first.assign(program.program().step.size() + 1, 0);
      program.program().data_flow.state.push_back({.role = program::StateRole::kParameter,
                                                   .place = {kept, Bytes(0), DataType::kFp32},
                                                   .first_element = 1024 * rank,
                                                   .elements = 1024});
      const auto backend = MakeHostBackend();
      auto device = backend->MakeDevice(program.program(), *jobs[rank], {});
      ASSERT_TRUE(device.has_value()) << device.error().message;
      Progress progress;
      ExecuteOptions steps;
      steps.warmup_steps = 1;
      steps.measured_steps = 2;
      const auto measured = Execute(program.program(), **device, *jobs[rank], steps, progress);
      ASSERT_TRUE(measured.has_value()) << measured.error().message;
      timelines[rank] = measured->timeline;
      const auto given = (*device)->Read({kept, Bytes(0), DataType::kFp32}, 1024);
      const auto received = (*device)->Read({got, Bytes(4096), DataType::kFp32}, 1024);
      ASSERT_TRUE(given.has_value() && received.has_value());
      const auto all = jobs[rank]->Gather(
          std::string(reinterpret_cast<const char*>(given->data()), given->size() * sizeof(float)));
      const auto others = jobs[rank]->Gather(std::string(
          reinterpret_cast<const char*>(received->data()), received->size() * sizeof(float)));
      ASSERT_TRUE(all.has_value() && others.has_value());
      if (rank != 0) return;
      EXPECT_NE(all->at(0), all->at(1));
      EXPECT_EQ(others->at(0), all->at(1));
      EXPECT_EQ(others->at(1), all->at(0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(timelines[0].operations.size(), 4u);
  ASSERT_EQ(timelines[1].operations.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    if (timelines[1].operations[i].instruction != 1) continue;
    EXPECT_EQ(timelines[0].operations[i].start, timelines[1].operations[i].start);
    EXPECT_GE(timelines[1].operations[i].start, timelines[1].operations[i].ready);
  }
}

// If a message has different sizes at its two ends, both ranks end.
TEST(HostDevice, AMessageWithEndsThatDifferIsNamed) {
  auto jobs = MakeThreadJobs(2);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      TestProgram program(1);
      program.program().rank = rank;
      const auto pipeline = program.AddCommunicator("pipeline", {0, 1});
      const auto buffer = program.AddBuffer("x", KiB(4));
      const auto end = rank == 0 ? TestProgram::Send(1, KiB(4)) : TestProgram::Receive(0, KiB(2));
      program.Allocate(0, buffer).Step();
      program.Exchange(0, program.AddExchange(pipeline, {end}),
                       {rank == 0 ? program.Read(buffer) : TestProgram::Write(buffer, 0, 2048)});
      const auto backend = MakeHostBackend();
      auto device = backend->MakeDevice(program.program(), *jobs[rank], {});
      ASSERT_TRUE(device.has_value()) << device.error().message;
      Progress progress;
      const auto measured = Execute(program.program(), **device, *jobs[rank], {}, progress);
      ASSERT_FALSE(measured.has_value());
      said[rank] = measured.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE((said[0] + said[1]).find("must use the same number of bytes"), std::string::npos)
      << said[0] << "\n"
      << said[1];
}

// Two ranks, one of which fails before a collective: the other gets a failure instead of waiting.
TEST(HostDevice, ARankThatFailsDoesNotLeaveItsPartnersWaiting) {
  auto jobs = MakeThreadJobs(2);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      TestProgram program(1);
      const auto data = program.AddCommunicator("data", {0, 1});
      const auto buffer = program.AddBuffer("large", MiB(rank == 1 ? 30 : 1));
      program.Step();
      program.Allocate(0, buffer)
          .Communicate(0, program.AddCollective(CollectiveKind::kAllReduce, data, KiB(64)))
          .Release(buffer);
      DeviceOptions options;
      options.memory_limit = MiB(20);
      auto device = MakeHostBackend()->MakeDevice(program.program(), *jobs[rank], options);
      ASSERT_TRUE(device.has_value()) << device.error().message;
      Progress progress;
      const auto measured = Execute(program.program(), **device, *jobs[rank], {}, progress);
      ASSERT_FALSE(measured.has_value());
      said[rank] = measured.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(said[1].find("rank 1, step 1, allocate 'large'"), std::string::npos) << said[1];
  EXPECT_NE(said[0].find("rank 0, step 1, all_reduce on communicator 'data'"), std::string::npos)
      << said[0];
  EXPECT_NE(said[0].find("rank 1 has ended"), std::string::npos) << said[0];
}

TEST(HostDevice, ACollectiveStartsWhenItsLastMemberIsThere) {
  auto jobs = MakeThreadJobs(2);
  std::vector<program::Timeline> timelines(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      TestProgram program(1);
      const auto data = program.AddCommunicator("data", {0, 1});
      program.Step();
      const auto before = program.AddKernel("before");
      program.program().kernels[before].given = Milliseconds(rank == 0 ? 1 : 30);
      program.Run(0, before).Communicate(
          0, program.AddCollective(CollectiveKind::kAllReduce, data, KiB(4)));
      auto device = MakeHostBackend()->MakeDevice(program.program(), *jobs[rank], {});
      ASSERT_TRUE(device.has_value()) << device.error().message;
      Progress progress;
      ExecuteOptions options;
      options.barrier = true;
      auto measured = Execute(program.program(), **device, *jobs[rank], options, progress);
      ASSERT_TRUE(measured.has_value()) << measured.error().message;
      timelines[rank] = measured->timeline;
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::vector<program::OperationRecord>> collectives(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const program::OperationRecord& record : timelines[rank].operations) {
      if (record.instruction == 1) collectives[rank].push_back(record);
    }
    ASSERT_EQ(collectives[rank].size(), 5u);
  }
  for (int step = 0; step < 5; ++step) {
    const program::OperationRecord& early = collectives[0][step];
    const program::OperationRecord& late = collectives[1][step];
    EXPECT_EQ(early.start, late.start);
    EXPECT_GE(early.start, std::max(early.ready, late.ready));
    EXPECT_LE(early.start, early.end);
  }
}

TEST(HostDevice, CannotCapture) {
  TestProgram program(1);
  program.Step();
  program.Kernel(0, "k");
  auto jobs = MakeThreadJobs(1);
  auto device = MakeHostBackend()->MakeDevice(program.program(), *jobs[0], {});
  ASSERT_TRUE(device.has_value());
  Progress progress;
  ExecuteOptions options;
  options.graph = true;
  const auto measured = Execute(program.program(), **device, *jobs[0], options, progress);
  ASSERT_FALSE(measured.has_value());
  EXPECT_NE(measured.error().message.find("capture"), std::string::npos);
}

TEST(HostBackend, SaysWhatItRunsOn) {
  const auto backend = MakeHostBackend();
  EXPECT_STREQ(backend->name(), "host");
  std::vector<std::string> keys;
  for (const auto& [key, value] : backend->Describe()) {
    keys.push_back(key);
    EXPECT_FALSE(value.empty()) << key;
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"cpu", "cores", "kernel", "blas", "mpi"}));
}

}  // namespace
}  // namespace stepcast::runtime::host
