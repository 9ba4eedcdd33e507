#include "src/runtime/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "tests/examples/test_program.h"

namespace stepcast::runtime {
namespace {

using program::Index;
using program::TestProgram;

// Records every call. Each operation takes 1 ms of a simulated clock that only operations advance.
// It begins at its launch, or when the previous operation ends.
class FakeDevice : public Device {
 public:
  explicit FakeDevice(const program::Program& program) : program_(program) {}

  std::vector<std::string> calls;
  std::string fail_at;  // a call that fails
  std::optional<OperationId> failed_operation;
  bool captures = true;

  Attempt<void> Allocate(Index buffer, std::uint16_t) override {
    return Note(fmt::format("allocate {}", buffer));
  }
  Attempt<void> Release(Index buffer) override { return Note(fmt::format("release {}", buffer)); }
  void RecordStream(Index buffer, std::uint16_t stream) override {
    static_cast<void>(Note(fmt::format("use {} on {}", buffer, stream)));
  }
  Attempt<void> Launch(OperationId operation, const program::Instruction& instruction) override {
    const std::string where = operation.instruction == program::kNone
                                  ? "prologue"
                                  : fmt::format("{}/{}", operation.instruction, operation.step);
    Attempt<void> noted = Note(fmt::format("launch {} on {}", where, instruction.stream));
    if (noted && operation.instruction != program::kNone) Run(operation);
    return noted;
  }
  Attempt<void> Record(Index event, std::uint16_t stream) override {
    return Note(fmt::format("record {} on {}", event, stream));
  }
  Attempt<void> Wait(Index event, std::uint16_t stream) override {
    waits_.push_back({wait_calls_++, Now(), Now() + Milliseconds(1)});
    return Note(fmt::format("wait {} on {}", event, stream));
  }
  Attempt<void> HostWait(Index event) override {
    now_ = std::max(now_, busy_);
    return Note(fmt::format("host waits {}", event));
  }
  Attempt<void> BeginCapture() override {
    if (!captures) return tl::unexpected(Failure{"cannot capture"});
    capturing_ = true;
    return Note("begin capture");
  }
  Attempt<void> EndCapture() override {
    capturing_ = false;
    return Note("end capture");
  }
  Attempt<void> Replay(std::uint32_t step) override {
    for (Index i = 0; i < program_.step.size(); ++i) {
      if (program_.step[i].opcode == program::Opcode::kKernel) Run({i, step});
    }
    return Note(fmt::format("replay {}", step));
  }
  Attempt<void> Synchronise() override {
    now_ = std::max(now_, busy_);
    return Note("synchronise");
  }
  Attempt<std::vector<OperationTimes>> TakeTimes() override { return std::exchange(times_, {}); }
  std::vector<WaitTimes> TakeWaits() override { return std::exchange(waits_, {}); }
  Time Now() override { return now_; }
  MemoryUse Memory() const override { return {Bytes(10), Bytes(20), Bytes(30)}; }
  Attempt<std::vector<float>> Read(const program::Elements&, std::int64_t) override {
    return std::vector<float>();
  }

 private:
  Attempt<void> Note(std::string call) {
    calls.push_back(std::move(call));
    if (calls.back() == fail_at) {
      return tl::unexpected(Failure{"it broke", false, failed_operation});
    }
    return {};
  }
  void Run(OperationId operation) {
    if (capturing_) return;
    const Time start = std::max(now_, busy_);
    busy_ = start + Milliseconds(1);
    times_.push_back({operation, start, start, busy_});
  }

  const program::Program& program_;
  Time now_;
  Time busy_;
  std::uint64_t wait_calls_ = 0;
  bool capturing_ = false;
  std::vector<OperationTimes> times_;
  std::vector<WaitTimes> waits_;
};

struct Outcome {
  Attempt<Measurement> measurement;
  std::vector<std::string> calls;
};

Outcome RunAlone(
    const program::Program& program, const ExecuteOptions& options,
    const std::function<void(FakeDevice&)>& prepare = [](FakeDevice&) {}) {
  FakeDevice device(program);
  prepare(device);
  auto jobs = MakeThreadJobs(1);
  Progress progress;
  Attempt<Measurement> measurement = Execute(program, device, *jobs[0], options, progress);
  return {std::move(measurement), device.calls};
}

ExecuteOptions Steps(int warmup, int measured) {
  ExecuteOptions options;
  options.warmup_steps = warmup;
  options.measured_steps = measured;
  return options;
}

TEST(Executor, IssuesInHostOrderWhatTheProgramSays) {
  TestProgram program(2);
  const auto kept = program.AddBuffer("kept", Bytes(8));
  const auto passing = program.AddBuffer("passing", Bytes(8));
  const auto event = program.AddEvent("event");
  program.Allocate(0, kept).Kernel(0, "initialise");
  program.Step();
  program.Allocate(0, passing)
      .Kernel(0, "k", {program.Write(passing)})
      .Record(0, event)
      .Wait(1, event)
      .RecordStream(1, passing)
      .HostWait(event)
      .Release(passing);
  const Outcome outcome = RunAlone(program.program(), Steps(1, 1));
  ASSERT_TRUE(outcome.measurement.has_value()) << outcome.measurement.error().message;
  const auto step = [](int number) {
    return std::vector<std::string>{"allocate 1",    fmt::format("launch 1/{} on 0", number),
                                    "record 0 on 0", "wait 0 on 1",
                                    "use 1 on 1",    "host waits 0",
                                    "release 1"};
  };
  std::vector<std::string> expected{"allocate 0", "launch prologue on 0", "synchronise"};
  for (const int number : {0, 1}) {
    for (const std::string& call : step(number)) expected.push_back(call);
    expected.push_back("synchronise");
  }
  EXPECT_EQ(outcome.calls, expected);
}

TEST(Executor, NumbersRecordsFromTheFirstMeasuredStep) {
  TestProgram program(2);
  const auto passing = program.AddBuffer("passing", Bytes(8));
  const auto event = program.AddEvent("event");
  program.Step();
  program.Allocate(0, passing).Wait(1, event).Kernel(0, "a").Kernel(0, "b").Release(passing);
  const Outcome outcome = RunAlone(program.program(), Steps(2, 3));
  ASSERT_TRUE(outcome.measurement.has_value()) << outcome.measurement.error().message;
  const program::Timeline& timeline = outcome.measurement->timeline;
  ASSERT_EQ(timeline.operations.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(timeline.operations[i].instruction, 2 + i % 2);
    EXPECT_EQ(timeline.operations[i].step, i / 2);
    EXPECT_EQ(timeline.operations[i].end - timeline.operations[i].start, Milliseconds(1));
  }
  ASSERT_EQ(timeline.waits.size(), 3u);
  EXPECT_EQ(timeline.waits[2].instruction, 1u);
  EXPECT_EQ(timeline.waits[2].step, 2u);
  ASSERT_EQ(timeline.memory.size(), 6u);
  EXPECT_EQ(timeline.memory[5].instruction, 4u);
  EXPECT_EQ(timeline.memory[5].step, 2u);
  // The fake clock stands still while the host issues, so steps take 2 ms each.
  ASSERT_EQ(timeline.step_ends.size(), 3u);
  EXPECT_EQ(timeline.step_ends[0], timeline.operations[1].end);
  EXPECT_EQ(timeline.step_ends[1] - timeline.step_ends[0], Milliseconds(2));
  EXPECT_EQ(timeline.step_ends[2] - timeline.step_ends[1], Milliseconds(2));
  EXPECT_EQ(outcome.measurement->memory.peak, Bytes(10));
}

TEST(Executor, ABarrierFollowsEachStep) {
  TestProgram program(1);
  program.Step();
  program.Kernel(0, "k");
  ExecuteOptions options = Steps(0, 2);
  options.barrier = true;
  const Outcome outcome = RunAlone(program.program(), options);
  ASSERT_TRUE(outcome.measurement.has_value());
  // After the prologue and the warm-up (none here), after each step, and at the end.
  EXPECT_EQ(outcome.calls, (std::vector<std::string>{
                               "synchronise", "synchronise", "launch 0/0 on 0", "synchronise",
                               "launch 0/1 on 0", "synchronise", "synchronise"}));
}

TEST(Executor, HostTasksRunOnTheHost) {
  TestProgram program(1);
  program.Step();
  program.HostTask("load data", Milliseconds(2)).Kernel(0, "k");
  const Outcome outcome = RunAlone(program.program(), Steps(0, 2));
  ASSERT_TRUE(outcome.measurement.has_value());
  const auto& operations = outcome.measurement->timeline.operations;
  ASSERT_EQ(operations.size(), 4u);
  EXPECT_EQ(std::count_if(operations.begin(), operations.end(),
                          [](const auto& record) { return record.instruction == 0; }),
            2);
}

TEST(Executor, AGraphIsCapturedOnceAndReplayed) {
  TestProgram program(1);
  const auto passing = program.AddBuffer("passing", Bytes(8));
  program.Step();
  program.Allocate(0, passing).Kernel(0, "k").Release(passing);
  ExecuteOptions options = Steps(1, 2);
  options.graph = true;
  const Outcome outcome = RunAlone(program.program(), options);
  ASSERT_TRUE(outcome.measurement.has_value()) << outcome.measurement.error().message;
  EXPECT_EQ(outcome.calls,
            (std::vector<std::string>{"synchronise", "begin capture", "allocate 0",
                                      "launch 1/0 on 0", "release 0", "end capture", "replay 0",
                                      "synchronise", "replay 1", "replay 2", "synchronise"}));
  EXPECT_EQ(outcome.measurement->timeline.operations.size(), 2u);
  EXPECT_EQ(outcome.measurement->timeline.memory.size(), 4u);
  EXPECT_EQ(outcome.measurement->timeline.step_ends.size(), 2u);
}

TEST(Executor, WhatCannotBeCapturedIsSaid) {
  TestProgram program(1);
  program.Step();
  program.Kernel(0, "k");
  ExecuteOptions options = Steps(1, 2);
  options.graph = true;
  const Outcome unable =
      RunAlone(program.program(), options, [](FakeDevice& device) { device.captures = false; });
  ASSERT_FALSE(unable.measurement.has_value());
  EXPECT_EQ(unable.measurement.error().message, "rank 0: cannot capture");
  program.HostTask("load data", Milliseconds(1));
  const Outcome host = RunAlone(program.program(), options);
  ASSERT_FALSE(host.measurement.has_value());
  EXPECT_EQ(host.measurement.error().message,
            "rank 0, step 1, host-task 'load data': a step with host tasks or host waits cannot "
            "be captured");
}

TEST(Executor, AFailureNamesRankStepAndOperation) {
  TestProgram program(1);
  program.Kernel(0, "first");
  program.Step();
  program.Label("layers.7").Kernel(0, "k").Kernel(0, "later");
  const auto message = [&](const std::string& call, std::optional<OperationId> operation) {
    const Outcome outcome = RunAlone(program.program(), Steps(1, 2), [&](FakeDevice& device) {
      device.fail_at = call;
      device.failed_operation = operation;
    });
    return outcome.measurement ? std::string() : outcome.measurement.error().message;
  };
  EXPECT_EQ(message("launch 0/2 on 0", {}),
            "rank 0, step 3, kernel 'k' of 'layers.7' on stream 'compute': it broke");
  EXPECT_EQ(message("launch prologue on 0", {}),
            "rank 0, before the first step, kernel 'first' on stream 'compute': it broke");
  // A failure of queued work shows later, and is named all the same.
  EXPECT_EQ(message("launch 1/2 on 0", OperationId{0, 1}),
            "rank 0, step 2, kernel 'k' of 'layers.7' on stream 'compute': it broke");
  EXPECT_EQ(message("synchronise", {}), "rank 0: it broke");
}

TEST(Executor, ReportsWhatItIssuesForADeviceThatCannot) {
  TestProgram program(1);
  program.Step();
  program.Kernel(0, "a").Kernel(0, "b");
  FakeDevice device(program.program());
  auto jobs = MakeThreadJobs(1);
  Progress progress;
  ASSERT_TRUE(Execute(program.program(), device, *jobs[0], Steps(1, 2), progress).has_value());
  EXPECT_EQ(progress.operations, 6u);
  EXPECT_EQ(progress.step, 2u);
  EXPECT_EQ(progress.instruction, 1u);
}

TEST(Executor, AllRanksStartAtOneInstant) {
  TestProgram program(1);
  program.Step();
  program.Kernel(0, "k");
  auto jobs = MakeThreadJobs(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      FakeDevice device(program.program());
      Progress progress;
      const auto measured = Execute(program.program(), device, *jobs[rank], Steps(0, 1), progress);
      ASSERT_TRUE(measured.has_value()) << measured.error().message;
      EXPECT_EQ(measured->timeline.operations.size(), 1u);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ClockOffsets, RanksOfOneMachineShareAClock) {
  auto jobs = MakeThreadJobs(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto offset = CompareClocks(*jobs[rank]);
      ASSERT_TRUE(offset.has_value());
      EXPECT_EQ(offset->ahead, 0);
      EXPECT_EQ(offset->uncertain, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ClockOffsets, DriftIsTheGainOverTheTimeBetween) {
  // 3 us gained in 2 s.
  EXPECT_DOUBLE_EQ(Drift({1000, 0, 5'000'000'000}, {4000, 0, 7'000'000'000}), 1.5e-6);
  EXPECT_EQ(Drift({1000, 0, 5}, {4000, 0, 5}), 0);
}

}  // namespace
}  // namespace stepcast::runtime
