#include "src/lowering/rate_limiter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/lowering/program_builder.h"
#include "src/program/program.h"

namespace stepcast::lowering {
namespace {

using program::Opcode;

// Gathers ('g') and frees ('f') of a step, to "wait X" and "free X" in the program.
std::vector<std::string> Written(const std::string& points) {
  ProgramBuilder builder;
  const StreamId compute = builder.AddStream("compute");
  RateLimiter limiter(builder, compute);
  builder.BeginStep();
  for (const char point : points) {
    if (point == 'g') {
      limiter.Gather();
    } else {
      limiter.Freed();
    }
  }
  limiter.Finish();
  const program::Program program = builder.Take();
  std::vector<std::string> lines;
  for (const program::Instruction& instruction : program.step) {
    const std::string name = program.NameOf(program.events[instruction.operand]);
    lines.push_back((instruction.opcode == Opcode::kHostWaitEvent ? "wait " : "free ") +
                    name.substr(name.rfind(' ') + 1));
  }
  return lines;
}

// A root and three blocks, FULL_SHARD with BACKWARD_PRE. Forward: the root (never freed), then each
// block is gathered and freed. Backward: the root is requested and requests block 2. Block 2
// requests 1 before its gradients and is freed after them; 1 requests 0, and 0 nothing; the root is
// freed. The first step leaves frees 3 to 6 in the queue. Every later step finds four entries,
// takes one for each gather that finds two or more, and leaves four again. The first waits, for 3
// to 6, are for the previous step.
TEST(RateLimiter, QueueLivesOnFromStepToStep) {
  EXPECT_EQ(Written("ggfgfgf"
                    "gggfgfff"),
            (std::vector<std::string>{"wait 3", "wait 4", "free 0", "wait 5", "free 1", "wait 6",
                                      "free 2", "wait 0", "wait 1", "wait for", "free 3", "wait 2",
                                      "free 4", "free 5", "free 6"}));
}

// No waits: the second step finds only the one free of the first.
TEST(RateLimiter, LetsTwoUnitsBeInFlight) {
  EXPECT_EQ(Written("ggf"), (std::vector<std::string>{"wait for", "wait for", "free 0"}));
}

// A block is gathered and freed twice. One entry is left after the first step, and the second
// gather of a later step finds two.
TEST(RateLimiter, WaitsForTheOldestFree) {
  EXPECT_EQ(Written("gfgf"), (std::vector<std::string>{"wait 0", "free 0", "wait 1", "free 1"}));
}

}  // namespace
}  // namespace stepcast::lowering
