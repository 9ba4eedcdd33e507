#include "src/report/timeline_chart.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/bytes.h"
#include "src/memory/account.h"
#include "src/memory/replay.h"
#include "src/report/answers.h"
#include "src/report/pages.h"

namespace stepcast::report {
namespace {

using program::Instruction;
using program::Opcode;
using testing::HasSubstr;

Instruction Make(Opcode opcode, std::uint16_t stream, program::Index operand,
                 program::Phase phase = program::Phase::kForward) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.stream = stream;
  instruction.operand = operand;
  instruction.phase = phase;
  return instruction;
}

Time Ms(std::int64_t n) { return stepcast::Milliseconds(n); }

// One step of 100 ms, the second of two. The compute stream runs a forward kernel [100, 140), a
// backward kernel [140, 180) and the optimizer [190, 200). The other stream runs an all-reduce
// [150, 190). A buffer of 6 MiB is allocated before the first kernel and released before the
// optimizer; one of 2 MiB is never released.
forecast::Run OneStep() {
  forecast::Run run;
  forecast::ClassRun& own = run.classes.emplace_back();
  program::Program& program = own.program;
  program.streams = {{"compute"}, {"reduce"}, {"unused"}};
  program.groups = {{"data", {0, 1}}};
  program.communicators = {{"data", 0}};
  program.buffers.resize(2);
  program.buffers[0].size = MiB(2);
  program.buffers[0].category = program::Category::kParameter;
  program.buffers[1].size = MiB(6);
  program.buffers[1].category = program::Category::kActivation;
  program.kernels.resize(3);
  program.kernels[0].name = "forward";
  program.kernels[1].name = "backward";
  program.kernels[2].name = "adamw";
  program.collectives.resize(1);
  program.collectives[0].communicator = 0;
  program.collectives[0].bytes = MiB(4);
  program.labels = {"layer.0"};
  program.prologue = {Make(Opcode::kAllocate, 0, 0)};
  program.step = {
      Make(Opcode::kAllocate, 0, 1),                            // 0
      Make(Opcode::kKernel, 0, 0),                              // 1
      Make(Opcode::kKernel, 0, 1, program::Phase::kBackward),   // 2
      Make(Opcode::kCollective, 1, 0),                          // 3
      Make(Opcode::kRelease, 0, 1),                             // 4
      Make(Opcode::kKernel, 0, 2, program::Phase::kOptimizer),  // 5
  };
  program.step[1].label = 0;
  for (std::uint32_t step = 0; step < 2; ++step) {
    const Time start = Ms(100) * step;
    // The host issues the second step while the first runs.
    const auto record = [&](program::Index at, std::int64_t from, std::int64_t to) {
      run.classes[0].timeline.operations.push_back(
          {at, step, Ms(10) * step, start + Ms(from), start + Ms(from), start + Ms(to)});
    };
    record(1, 0, 40);
    record(2, 40, 80);
    record(3, 50, 90);
    record(5, 90, 100);
    run.classes[0].timeline.memory.push_back({0, step, Ms(10) * step});
    run.classes[0].timeline.memory.push_back({4, step, Ms(10) * step + Ms(1)});
    run.classes[0].timeline.step_ends.push_back(start + Ms(100));
  }
  run.first_step = 1;
  return run;
}

StepWindow Window(const forecast::Run& run) {
  return {.program = &run.classes[0].program,
          .timeline = &run.classes[0].timeline,
          .prices = nullptr,
          .start = Ms(100),
          .end = Ms(200)};
}

TEST(LanesTest, HoldWhatHappensInTheWindow) {
  const forecast::Run run = OneStep();
  const std::vector<Lane> lanes = LanesOf(Window(run));
  ASSERT_EQ(lanes.size(), 2U);  // nothing ran on the host or on the third stream
  EXPECT_EQ(lanes[0].name, "compute");
  ASSERT_EQ(lanes[0].bars.size(), 3U);
  EXPECT_EQ(lanes[0].bars[0].start, Ms(0));
  EXPECT_EQ(lanes[0].bars[0].end, Ms(40));
  EXPECT_EQ(lanes[0].bars[0].of, "layer.0");
  EXPECT_EQ(lanes[0].bars[1].kind, BarKind::kBackward);
  EXPECT_EQ(lanes[0].bars[2].kind, BarKind::kOptimizer);
  ASSERT_EQ(lanes[1].bars.size(), 1U);
  EXPECT_EQ(lanes[1].bars[0].name, "all_reduce of 4 MiB, group data");
  EXPECT_EQ(lanes[1].bars[0].kind, BarKind::kCommunication);
}

TEST(LanesTest, IssuesWithoutAGapAreOneBar) {
  forecast::Run run = OneStep();
  run.classes[0].prices.issue_kernel = Ms(2);
  run.classes[0].prices.issue_collective = Ms(2);
  // Issued at 102, 104, 106 and, after a pause, 120.
  const std::vector<std::int64_t> issued = {102, 104, 106, 120};
  for (std::size_t i = 0; i < issued.size(); ++i) {
    run.classes[0].timeline.operations[4 + i].issued = Ms(issued[i]);
  }
  StepWindow window = Window(run);
  window.prices = &run.classes[0].prices;
  const std::vector<Lane> lanes = LanesOf(window);
  ASSERT_EQ(lanes.front().name, "host");
  ASSERT_EQ(lanes.front().bars.size(), 2U);
  EXPECT_EQ(lanes.front().bars[0].name, "issues 3 operations");
  EXPECT_EQ(lanes.front().bars[0].busy, Ms(6));
  EXPECT_EQ(lanes.front().bars[1].start, Ms(18));
}

TEST(JoinShortBarsTest, KeepsTheirTimeAndNumber) {
  std::vector<Lane> lanes(1);
  constexpr int kBars = 1000;
  for (int i = 0; i < kBars; ++i) {
    lanes[0].bars.push_back({.start = Ms(10 * i), .end = Ms(10 * i + 4), .busy = Ms(4)});
  }
  constexpr std::size_t kMost = 100;
  EXPECT_GT(JoinShortBars(lanes, kMost), Time());
  EXPECT_LE(lanes[0].bars.size(), kMost);
  Time busy;
  std::int64_t operations = 0;
  for (const Bar& bar : lanes[0].bars) {
    busy += bar.busy;
    operations += bar.operations;
  }
  EXPECT_EQ(busy, Ms(4 * kBars));
  EXPECT_EQ(operations, kBars);
}

TEST(JoinShortBarsTest, LeavesAloneWhatFits) {
  std::vector<Lane> lanes(1);
  lanes[0].bars = {{.start = Ms(0), .end = Ms(1)}, {.start = Ms(1), .end = Ms(2)}};
  EXPECT_EQ(JoinShortBars(lanes, 2), Time());
  EXPECT_EQ(lanes[0].bars.size(), 2U);
}

// Alternating kinds have no neighbors of one kind.
TEST(JoinShortBarsTest, JoinsKindsThatAlternate) {
  std::vector<Lane> lanes(1);
  constexpr int kPairs = 500;
  for (int i = 0; i < kPairs; ++i) {
    lanes[0].bars.push_back({.start = Ms(30 * i), .end = Ms(30 * i + 10), .busy = Ms(10)});
    lanes[0].bars.push_back({.start = Ms(30 * i + 10),
                             .end = Ms(30 * i + 30),
                             .kind = BarKind::kBackward,
                             .busy = Ms(20)});
  }
  constexpr std::size_t kMost = 100;
  EXPECT_GT(JoinShortBars(lanes, kMost), Time());
  EXPECT_LE(lanes[0].bars.size(), kMost);
  EXPECT_EQ(lanes[0].bars[1].kind, BarKind::kBackward);  // the longer part
}

TEST(TimelineChartTest, TakesAtMostItsBytes) {
  std::vector<Lane> lanes(1);
  constexpr int kBars = 100'000;
  for (int i = 0; i < kBars; ++i) {
    lanes[0].bars.push_back({.start = Microseconds(100 * i),
                             .end = Microseconds(100 * i + i % 97),
                             .name = "operation",
                             .of = "micro-batch " + std::to_string(i),
                             .busy = Microseconds(i % 97)});
  }
  const TimelineFigure figure = TimelineChart(lanes, Microseconds(100 * kBars), "label");
  EXPECT_LE(figure.chart.data.ToJson().dump().size(), 400'000U);
  EXPECT_THAT(figure.note, HasSubstr("are drawn as one"));
}

TEST(TimelineChartTest, NotesAreInTheUnitOfTheChart) {
  const auto note = [](const char* unit) {
    std::vector<Lane> lanes(1);
    for (int i = 0; i < 100'000; ++i) {
      lanes[0].bars.push_back({.start = Ms(2 * i), .end = Ms(2 * i + 1), .busy = Ms(1)});
    }
    return TimelineChart(lanes, Ms(200'000), "label", unit).note;
  };
  // 200,000 ms / 65,536, the finest length at which bars are joined.
  EXPECT_THAT(note("ms"), HasSubstr("at most 3.05 ms together."));
  EXPECT_THAT(note("slots"), HasSubstr("at most 3 slots together."));
}

TEST(MemoryOverTest, StandsWhereTheComputeStreamGetsThere) {
  const forecast::Run run = OneStep();
  // In host order the 6 MiB are allocated before the first kernel, at 0 of the window. They are
  // released before the optimizer's kernel, which starts at 90 ms.
  const std::vector<MemoryInstant> instants = MemoryOver(
      run.classes[0].program, run.classes[0].timeline,
      memory::Record(run.classes[0].program, run.classes[0].timeline, memory::kUnlimited), 1,
      Ms(100), Ms(200), 100);
  ASSERT_EQ(instants.size(), 2U);
  EXPECT_EQ(instants[0].start, Time());
  EXPECT_EQ(instants[0].bytes[static_cast<std::size_t>(program::Category::kActivation)], MiB(6));
  EXPECT_EQ(instants[0].bytes[static_cast<std::size_t>(program::Category::kParameter)], MiB(2));
  EXPECT_EQ(instants[1].start, Ms(90));
  EXPECT_EQ(instants[1].bytes[static_cast<std::size_t>(program::Category::kActivation)], Bytes());
}

TEST(TimelineTextTest, DrawsStreamsAsRows) {
  // 48 columns: 7 for names, 2 between, and 39 for 100 ms: 2.564 ms per cell. The forward kernel
  // ends at cell 15.6 and the backward at 31.2; the optimizer begins at 35.1.
  const std::string text = TimelineText(OneStep(), {.width = 48, .colour = false});
  EXPECT_THAT(text, HasSubstr("compute  FFFFFFFFFFFFFFFFBBBBBBBBBBBBBBBb   OOOO\n"));
  EXPECT_THAT(text, HasSubstr("reduce                      CCCCCCCCCCCCCCCCc\n"));
  EXPECT_THAT(text, HasSubstr("         |0 ms"));
  EXPECT_THAT(text, HasSubstr("F forward   B backward   O optimizer"));
}

TEST(TimelineTextTest, StaysInsideTheTerminal) {
  for (const int width : {40, 47, 80, 133, 400}) {
    const std::string text = TimelineText(OneStep(), {.width = width, .colour = false});
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_LE(end - begin, static_cast<std::size_t>(width)) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

TEST(TimelineTextTest, EveryColourIsSwitchedOff) {
  const std::string text = TimelineText(OneStep(), {.width = 60, .colour = true});
  EXPECT_THAT(text, HasSubstr("\033[30;48;5;75mF"));
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const std::size_t on = line.rfind("\033[30;"), off = line.rfind("\033[0m");
    if (on != std::string::npos) {
      EXPECT_TRUE(off != std::string::npos && off > on) << line;
    }
    begin = end + 1;
  }
}

}  // namespace
}  // namespace stepcast::report
