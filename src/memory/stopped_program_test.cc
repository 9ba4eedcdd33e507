#include <cstdint>
#include <iterator>

#include "gtest/gtest.h"
#include "src/base/bytes.h"
#include "src/base/time.h"
#include "src/memory/deferred_frees.h"

namespace stepcast::memory {
namespace {

using program::Index;
using program::Instruction;
using program::Opcode;

// The first of two allocations only needs a segment. The second returns others for it, and the host
// first waits for both streams.
TEST(StoppedProgram, TheHostWaitsForAllStreamsWhereSegmentsAreGivenBack) {
  program::Program program;
  program.streams = {{"compute"}, {"side"}};
  program.events.resize(1);
  program.buffers.resize(2);
  program.kernels.resize(1);
  program.step = {{.opcode = Opcode::kAllocate, .operand = 0},
                  {.opcode = Opcode::kKernel, .operand = 0},
                  {.opcode = Opcode::kAllocate, .operand = 1}};
  const DriverCallsAt calls[] = {
      {.instruction = 0, .calls = {.allocations = 1}},
      {.instruction = 2,
       .calls = {.flushes = 1, .allocations = 1, .frees = 3, .given_back = GiB(2)}}};
  const program::Program stopped = StoppedProgram(program, calls);
  ASSERT_EQ(stopped.host_tasks.size(), 2u);
  EXPECT_EQ(stopped.host_tasks[0].duration, Microseconds(69));
  EXPECT_EQ(stopped.host_tasks[1].duration,
            Microseconds(69 + 3 * 57) + Picoseconds(7 * (std::int64_t{2} << 30)));
  EXPECT_EQ(stopped.events.size(), 3u);
  const struct {
    Opcode opcode;
    int stream;
    Index operand;
  } expected[] = {
      {Opcode::kHostTask, 0, 0},      {Opcode::kAllocate, 0, 0},    {Opcode::kKernel, 0, 0},
      {Opcode::kRecordEvent, 0, 1},   {Opcode::kRecordEvent, 1, 2}, {Opcode::kHostWaitEvent, 0, 1},
      {Opcode::kHostWaitEvent, 1, 2}, {Opcode::kHostTask, 0, 1},    {Opcode::kAllocate, 0, 1}};
  ASSERT_EQ(stopped.step.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(stopped.step[i].opcode, expected[i].opcode) << i;
    EXPECT_EQ(stopped.step[i].operand, expected[i].operand) << i;
    if (expected[i].opcode == Opcode::kRecordEvent) {
      EXPECT_EQ(stopped.step[i].stream, expected[i].stream) << i;
    }
  }
  // The calls alone.
  const program::Program calling = StoppedProgram(program, calls, /*waits=*/false);
  ASSERT_EQ(calling.step.size(), 5u);
  EXPECT_EQ(calling.step[0].opcode, Opcode::kHostTask);
  EXPECT_EQ(calling.step[3].opcode, Opcode::kHostTask);
  EXPECT_EQ(calling.host_tasks.size(), 2u);
}

}  // namespace
}  // namespace stepcast::memory
