// Tests the device with small programs written by hand. Without a GPU every test is skipped;
// tests/training covers programs of real scenarios.
#include "src/runtime/cuda/gpu_device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/runtime/cuda/backend.h"
#include "src/runtime/executor.h"
#include "tests/examples/test_program.h"

namespace stepcast::runtime::cuda {
namespace {

using program::Category;
using program::CopyDirection;
using program::Effect;
using program::EffectKind;
using program::Index;
using program::TestProgram;

#define STEPCAST_NEEDS_A_GPU()            \
  const auto backend = MakeCudaBackend(); \
  if (!backend) GTEST_SKIP() << backend.error().message

// Assigns effects to the step: instruction i gets `effects[i]`.
void SetEffects(program::Program& program, const std::vector<std::vector<Effect>>& effects) {
  for (const std::vector<Effect>& own : effects) {
    program.data_flow.first.push_back(static_cast<Index>(program.data_flow.effects.size()));
    program.data_flow.effects.insert(program.data_flow.effects.end(), own.begin(), own.end());
  }
  program.data_flow.first.push_back(static_cast<Index>(program.data_flow.effects.size()));
}

Attempt<Measurement> Measure(Backend& backend, const program::Program& program, bool graph = false,
                             DeviceOptions options = {}) {
  auto jobs = MakeThreadJobs(1);
  auto device = backend.MakeDevice(program, *jobs[0], options);
  if (!device) return tl::make_unexpected(device.error());
  Progress progress;
  return Execute(program, **device, *jobs[0],
                 {.warmup_steps = 1, .measured_steps = 4, .barrier = false, .graph = graph},
                 progress);
}

TEST(GpuDevice, GivenKernelsLastAsLongAsGiven) {
  STEPCAST_NEEDS_A_GPU();
  TestProgram program(2);
  const Index one = program.AddKernel("one");
  program.program().kernels[one].given = Milliseconds(2);
  program.Step().Run(0, one).Run(1, one).Run(0, one);
  for (const bool graph : {false, true}) {
    // Two operations on one stream and one on another: a step takes 4 ms and not 6. One of a few
    // tries suffices, since other processes may use the host.
    Time shortest = Seconds(1);
    for (int tries = 0; tries < 5 && shortest >= Milliseconds(3 * 5); ++tries) {
      const auto measured = Measure(**backend, program.program(), graph);
      ASSERT_TRUE(measured) << measured.error().message;
      ASSERT_EQ(measured->timeline.operations.size(), 4u * 3u);
      for (const program::OperationRecord& record : measured->timeline.operations) {
        EXPECT_GE(record.end - record.start, Microseconds(1990));
      }
      const auto& ends = measured->timeline.step_ends;
      shortest = std::min(shortest, ends[3] - ends[0]);
    }
    EXPECT_LT(shortest, Milliseconds(3 * 5));
    EXPECT_GE(shortest, Milliseconds(3 * 4) - Microseconds(100));
  }
}

TEST(GpuDevice, EventsOrderStreams) {
  STEPCAST_NEEDS_A_GPU();
  TestProgram program(2);
  const Index one = program.AddKernel("one");
  program.program().kernels[one].given = Milliseconds(1);
  const Index done = program.AddEvent("done");
  program.Step().Run(0, one).Record(0, done).Wait(1, done).Run(1, one);
  for (const bool graph : {false, true}) {
    const auto measured = Measure(**backend, program.program(), graph);
    ASSERT_TRUE(measured) << measured.error().message;
    std::vector<Time> first_end(4), second_start(4);
    for (const program::OperationRecord& record : measured->timeline.operations) {
      if (record.instruction == 0) first_end[record.step] = record.end;
      if (record.instruction == 3) second_start[record.step] = record.start;
    }
    // Events have a resolution of half a microsecond.
    for (int s = 0; s < 4; ++s) EXPECT_GE(second_start[s] + Microseconds(2), first_end[s]);
  }
}

// All directions, with sizes beyond a piece.
TEST(GpuDevice, CopiesRunInAllDirections) {
  STEPCAST_NEEDS_A_GPU();
  TestProgram program(2);
  program.Step()
      .Copy(0, CopyDirection::kHostToDevice, MiB(100))
      .Copy(1, CopyDirection::kDeviceToHost, MiB(100))
      .Copy(0, CopyDirection::kDeviceToDevice, MiB(300))
      .Copy(0, CopyDirection::kDeviceToDevice, Bytes(1));
  const auto measured = Measure(**backend, program.program());
  ASSERT_TRUE(measured) << measured.error().message;
  for (const program::OperationRecord& record : measured->timeline.operations) {
    if (record.instruction > 1) continue;
    // 100 MiB over PCIe or NVLink to the host: less than 1000 GB/s.
    EXPECT_GT(record.end - record.start, Microseconds(105));
  }
}

// One rank and one communicator used on two streams, with every kind of collective. Values move
// from buffer to buffer, also through another type.
TEST(GpuDevice, CommunicatorsOfOneRankCommunicate) {
  STEPCAST_NEEDS_A_GPU();
  TestProgram program(2);
  const Index data = program.AddCommunicator("data", {0});
  const Index from = program.AddBuffer("from", KiB(4), Category::kParameter);
  const Index to = program.AddBuffer("to", KiB(16), Category::kGradient);
  program.Allocate(0, from).Allocate(0, to).Step();
  std::vector<std::vector<Effect>> effects;
  const CollectiveKind kinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                  CollectiveKind::kAllGather, CollectiveKind::kBroadcast};
  for (int i = 0; i < 4; ++i) {
    program.Communicate(i % 2,
                        program.AddCollective(kinds[i], data, Bytes(2 * 500), DataType::kBf16));
    effects.push_back({{.kind = EffectKind::kCollective,
                        .target = {to, Bytes(2000 * i), DataType::kFp32},
                        .source = {from, Bytes(0), DataType::kBf16},
                        .elements = 500}});
  }
  program::Program& written = program.program();
  SetEffects(written, effects);
  written.data_flow.state.push_back({.role = program::StateRole::kParameter,
                                     .place = {from, Bytes(0), DataType::kBf16},
                                     .elements = 500});
  for (const bool graph : {false, true}) {
    auto jobs = MakeThreadJobs(1);
    auto device = (*backend)->MakeDevice(written, *jobs[0], {});
    ASSERT_TRUE(device) << device.error().message;
    Progress progress;
    const auto measured = Execute(
        written, **device, *jobs[0],
        {.warmup_steps = 1, .measured_steps = 2, .barrier = false, .graph = graph}, progress);
    ASSERT_TRUE(measured) << measured.error().message;
    const auto source = (*device)->Read({from, Bytes(0), DataType::kBf16}, 500);
    ASSERT_TRUE(source);
    EXPECT_NE((*source)[0], 0.0f);
    for (int i = 0; i < 4; ++i) {
      const auto target = (*device)->Read({to, Bytes(2000 * i), DataType::kFp32}, 500);
      ASSERT_TRUE(target);
      EXPECT_EQ(*target, *source) << Name(kinds[i]);
    }
    EXPECT_EQ(measured->timeline.operations.size(), 8u);
  }
}

// A buffer that another stream still uses is not reused before it has been read.
TEST(GpuDevice, MemoryInUseIsNotReused) {
  STEPCAST_NEEDS_A_GPU();
  for (const bool pool : {true, false}) {
    TestProgram program(2);
    const Index slow = program.AddKernel("slow");
    program.program().kernels[slow].given = Milliseconds(1);
    const Index parameters = program.AddBuffer("parameters", MiB(4), Category::kParameter);
    const Index result = program.AddBuffer("result", MiB(4), Category::kGradient);
    const Index first = program.AddBuffer("first", MiB(4));
    const Index second = program.AddBuffer("second", MiB(4));
    const Index ready = program.AddEvent("ready");
    const Index done = program.AddEvent("done");
    program.Allocate(0, parameters).Allocate(0, result).Step();
    // Stream 1 copies `first` out after a delay. Meanwhile stream 0 gets a new buffer and fills it.
    program.Wait(0, done).Allocate(0, first).Run(0, slow);
    program.Record(0, ready).Wait(1, ready).RecordStream(1, first).Run(1, slow);
    program.Copy(1, CopyDirection::kDeviceToDevice, MiB(4)).Record(1, done).Release(first);
    program.Allocate(0, second).Run(0, slow).Release(second);
    program::Program& written = program.program();
    const std::int64_t count = MiB(1).count();
    const auto all = [&](Index buffer) {
      return program::Elements{buffer, Bytes(0), DataType::kFp32};
    };
    const auto move = [&](Index target, Index source, double scale) {
      return Effect{.kind = EffectKind::kMove,
                    .target = all(target),
                    .source = all(source),
                    .elements = count,
                    .scale = scale,
                    .block = count};
    };
    std::vector<std::vector<Effect>> effects(written.step.size());
    effects[2] = {move(first, parameters, 2)};
    effects[7] = {move(result, first, 1)};
    effects[11] = {move(second, parameters, 8)};
    SetEffects(written, effects);
    written.data_flow.state.push_back(
        {.role = program::StateRole::kParameter, .place = all(parameters), .elements = count});
    auto jobs = MakeThreadJobs(1);
    DeviceOptions options;
    options.pool = pool;
    auto device = (*backend)->MakeDevice(written, *jobs[0], options);
    ASSERT_TRUE(device) << device.error().message;
    Progress progress;
    const auto measured = Execute(written, **device, *jobs[0], {}, progress);
    ASSERT_TRUE(measured) << measured.error().message;
    const auto source = (*device)->Read(all(parameters), count);
    const auto target = (*device)->Read(all(result), count);
    ASSERT_TRUE(source && target);
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ((*target)[i], 2 * (*source)[i]) << i;
  }
}

}  // namespace
}  // namespace stepcast::runtime::cuda
