#include "src/report/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/memory/account.h"
#include "src/memory/replay.h"

namespace stepcast::report {
namespace {

using nlohmann::json;
using program::Instruction;
using program::Opcode;

Instruction Make(Opcode opcode, std::uint16_t stream, program::Index operand) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.stream = stream;
  instruction.operand = operand;
  return instruction;
}

// Two streams and two steps. In each step, k0 runs on the compute stream [0, 10) us. An all-reduce
// waits for it and runs [10, 14.5); k1 waits for that and runs [14.5, 20). The host waits for k1. A
// gradient of 4 MiB lives from 1 us to 2 us after the start of the step.
forecast::Run TwoSteps() {
  forecast::Run run;
  forecast::ClassRun& own = run.classes.emplace_back();
  program::Program& program = own.program;
  program.streams = {{"compute"}, {"communication"}};
  program.groups = {{"data", {0, 1, 2, 3}}};
  program.communicators = {{"data", 0}};
  program.buffers.resize(2);
  program.buffers[0].name.first = program.texts.Add("weights");
  program.buffers[0].size = MiB(8);
  program.buffers[0].category = program::Category::kParameter;
  program.buffers[1].name.first = program.texts.Add("gradient");
  program.buffers[1].size = MiB(4);
  program.buffers[1].category = program::Category::kGradient;
  for (const char* name : {"gradient ready", "reduced", "step done"}) {
    program.events.push_back({{program.texts.Add(name)}});
  }
  program.kernels.resize(2);
  program.kernels[0].name = "mlp \"up\"";
  program.kernels[0].flops = 1000;
  program.kernels[0].read = Bytes(60);
  program.kernels[0].written = Bytes(4);
  program.kernels[1].name = "adamw";
  program.collectives.resize(1);
  program.collectives[0].communicator = 0;
  program.collectives[0].bytes = MiB(25);
  program.labels = {"layers.0"};

  program.prologue = {Make(Opcode::kAllocate, 0, 0)};
  program.step = {
      Make(Opcode::kAllocate, 0, 1),       // 0
      Make(Opcode::kKernel, 0, 0),         // 1
      Make(Opcode::kRecordEvent, 0, 0),    // 2
      Make(Opcode::kWaitEvent, 1, 0),      // 3
      Make(Opcode::kCollective, 1, 0),     // 4
      Make(Opcode::kRecordEvent, 1, 1),    // 5
      Make(Opcode::kRelease, 0, 1),        // 6
      Make(Opcode::kWaitEvent, 0, 1),      // 7
      Make(Opcode::kKernel, 0, 1),         // 8
      Make(Opcode::kRecordEvent, 0, 2),    // 9
      Make(Opcode::kHostWaitEvent, 0, 2),  // 10
  };
  program.step[1].label = 0;
  program.step[8].phase = program::Phase::kOptimizer;

  run.classes[0].prices.kernels.resize(2);
  run.classes[0].prices.kernels[0].provenance = cost::Provenance::kMeasured;
  run.classes[0].prices.collectives.resize(1);
  run.classes[0].prices.collectives[0].algorithm = "ring";
  run.classes[0].prices.issue_kernel = stepcast::Microseconds(1);
  run.classes[0].prices.issue_collective = stepcast::Microseconds(2);

  for (std::uint32_t step = 0; step < 2; ++step) {
    const Time begin = stepcast::Microseconds(20) * step;
    const auto at = [&](std::int64_t nanoseconds) { return begin + Nanoseconds(nanoseconds); };
    const auto add = [&](program::Index instruction, Time issued, Time start, Time end) {
      run.classes[0].timeline.operations.push_back({instruction, step, issued, start, start, end});
    };
    add(1, at(1000), at(0), at(10'000));
    add(4, at(3000), at(10'000), at(14'500));
    add(8, at(4000), at(14'500), at(20'000));
    run.classes[0].timeline.waits.push_back({10, step, at(4000), at(20'000)});
    run.classes[0].timeline.memory.push_back({0, step, at(1000)});
    run.classes[0].timeline.memory.push_back({6, step, at(2000)});
    run.classes[0].timeline.step_ends.push_back(at(20'000));
  }
  run.first_step = 1;
  return run;
}

std::string Written(forecast::Run run, int steps = 2) {
  run.classes[0].memory =
      memory::Record(run.classes[0].program, run.classes[0].timeline, memory::kUnlimited);
  std::string text;
  const auto result = WriteTrace(
      run, {"two \"steps\"", 0, 4},
      [&](std::string_view bytes) -> tl::expected<void, std::string> {
        text += bytes;
        return {};
      },
      steps);
  EXPECT_TRUE(result.has_value());
  return text;
}

std::vector<json> Events(const json& trace, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

TEST(TraceTest, ParsesAndNamesItsRankAndTracks) {
  const std::string text = Written(TwoSteps());
  const json trace = json::parse(text);
  EXPECT_THAT(text, testing::HasSubstr("\"rank\": 0"));
  EXPECT_EQ(trace.at("distributedInfo").at("world_size"), 4);
  EXPECT_EQ(trace.at("otherData").at("scenario"), "two \"steps\"");
  std::map<std::string, std::vector<std::string>> names;
  for (const json& event : Events(trace, "M")) {
    if (event.at("args").contains("name")) {
      names[event.at("name")].push_back(event.at("args").at("name"));
    }
  }
  EXPECT_THAT(names["process_name"], testing::ElementsAre("rank 0"));
  EXPECT_THAT(names["thread_name"],
              testing::ElementsAre("steps", "host", "compute", "communication"));
}

TEST(TraceTest, SlicesSayWhatRanAndWhereItsTimeComesFrom) {
  const json trace = json::parse(Written(TwoSteps()));
  std::vector<json> device;
  for (const json& event : Events(trace, "X")) {
    if (event.at("cat") == "kernel") device.push_back(event);
  }
  ASSERT_EQ(device.size(), 6U);
  EXPECT_EQ(device[0].at("name"), "mlp \"up\"");
  EXPECT_EQ(device[0].at("tid"), 2);
  EXPECT_EQ(device[0].at("args").at("flops"), 1000);
  EXPECT_EQ(device[0].at("args").at("bytes"), 64);
  EXPECT_EQ(device[0].at("args").at("provenance"), "measured");
  EXPECT_EQ(device[0].at("args").at("phase"), "forward");
  EXPECT_EQ(device[0].at("args").at("label"), "layers.0");
  EXPECT_EQ(device[1].at("name"), "ncclDevKernel_AllReduce_RING (25 MiB)");
  EXPECT_EQ(device[1].at("tid"), 3);
  EXPECT_EQ(device[1].at("args").at("stream"), 1);
  EXPECT_EQ(device[1].at("args").at("bytes"), 26214400);
  EXPECT_EQ(device[1].at("args").at("algorithm"), "ring");
  EXPECT_EQ(device[1].at("args").at("group"), "data");
  EXPECT_EQ(device[1].at("args").at("group_size"), 4);
  EXPECT_EQ(device[2].at("args").at("phase"), "optimizer");
  EXPECT_FALSE(device[2].at("args").contains("label"));
}

// The requirements of Holistic Trace Analysis (facebookresearch/HolisticTraceAnalysis,
// hta/common/trace_file.py, trace_parser.py and utils/utils.py):
// - the rank is an integer in distributedInfo;
// - events with dur and cat are its rows, and others are dropped;
// - kernels have a stream of at least 0, and a correlation above 0 shared with one launch on the
//   host;
// - launches have no stream;
// - communication has "ncclDevKernel" or "ncclKernel" in the name, and copies have "Memcpy";
// - iterations are slices named ProfilerStep#N on the host.
TEST(TraceTest, HolisticTraceAnalysisCanReadIt) {
  const json trace = json::parse(Written(TwoSteps()));
  EXPECT_TRUE(trace.at("distributedInfo").at("rank").is_number_integer());
  std::map<std::int64_t, int> launches;
  std::vector<std::int64_t> kernels;
  std::set<std::string> steps;
  int communication = 0;
  for (const json& event : trace.at("traceEvents")) {
    if (!event.contains("dur")) continue;
    EXPECT_EQ(event.at("ph"), "X");
    for (const char* key : {"name", "cat"}) EXPECT_TRUE(event.at(key).is_string()) << event;
    for (const char* key : {"ts", "dur"}) EXPECT_TRUE(event.at(key).is_number()) << event;
    for (const char* key : {"pid", "tid"}) EXPECT_TRUE(event.at(key).is_number_integer()) << event;
    const std::string category = event.at("cat");
    const json& args = event.at("args");
    if (category == "kernel" || category == "gpu_memcpy") {
      EXPECT_GE(args.at("stream").get<int>(), 0);
      EXPECT_GT(args.at("correlation").get<std::int64_t>(), 0);
      kernels.push_back(args.at("correlation"));
      communication += event.at("name").get<std::string>().starts_with("ncclDevKernel") ? 1 : 0;
    } else {
      EXPECT_FALSE(args.contains("stream")) << event;
      if (args.contains("correlation")) ++launches[args.at("correlation")];
      if (category == "user_annotation") steps.insert(event.at("name"));
    }
  }
  EXPECT_EQ(kernels.size(), 6U);  // two kernels and an all-reduce in two steps
  EXPECT_EQ(communication, 2);
  EXPECT_EQ(launches.size(), kernels.size());
  for (const std::int64_t correlation : kernels) EXPECT_EQ(launches[correlation], 1);
  EXPECT_EQ(steps, (std::set<std::string>{"ProfilerStep#0", "ProfilerStep#1"}));
}

TEST(TraceTest, TimesKeepEveryPicosecond) {
  forecast::Run run = TwoSteps();
  run.classes[0].timeline.operations[1].end += Picoseconds(1);
  EXPECT_THAT(Written(run), testing::HasSubstr("\"ts\": 10.000000, \"dur\": 4.500001"));
}

TEST(TraceTest, SlicesOfATrackDoNotOverlapAndAddUpToTheTimeline) {
  const forecast::Run run = TwoSteps();
  const json trace = json::parse(Written(run));
  std::map<int, std::vector<std::pair<double, double>>> tracks;
  for (const json& event : Events(trace, "X")) {
    const double start = event.at("ts");
    tracks[event.at("tid")].emplace_back(start, start + event.at("dur").get<double>());
  }
  std::map<int, double> sums;
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (i > 0) {
        EXPECT_GE(slices[i].first, slices[i - 1].second - 1e-6) << "track " << track;
      }
      sums[track] += slices[i].second - slices[i].first;
    }
  }
  EXPECT_NEAR(sums[0], 40.0, 1e-6);            // two steps of 20 us
  EXPECT_NEAR(sums[1], 2 * (4 + 16.0), 1e-6);  // three issues, 1 + 2 + 1 us, and a wait of 16 us
  EXPECT_NEAR(sums[2], 2 * (10 + 5.5), 1e-6);  // k0 and k1
  EXPECT_NEAR(sums[3], 2 * 4.5, 1e-6);         // the all-reduce
}

TEST(TraceTest, TheForecastStepIsMarked) {
  const json trace = json::parse(Written(TwoSteps()));
  std::vector<bool> marks;
  for (const json& event : Events(trace, "X")) {
    if (event.at("tid") == 0) marks.push_back(event.at("args").at("forecast"));
  }
  EXPECT_THAT(marks, testing::ElementsAre(false, true));
}

// By default only the forecast step is written, even if a later one was run.
TEST(TraceTest, OneStepIsWrittenUnlessMoreAreAskedFor) {
  forecast::Run run = TwoSteps();
  run.first_step = 0;
  const json trace = json::parse(Written(run, 1));
  std::set<int> steps;
  for (const json& event : Events(trace, "X")) {
    if (event.at("args").contains("step")) steps.insert(event.at("args").at("step").get<int>());
    EXPECT_LT(event.at("ts").get<double>(), 20.0);
  }
  EXPECT_EQ(steps, std::set<int>{0});
  for (const json& event : Events(trace, "C")) EXPECT_LT(event.at("ts").get<double>(), 20.0);
  EXPECT_EQ(Events(trace, "s").size(), 3U);
}

// The fields that profilers write for a collective, so that analyzers of their traces can read
// ours. 25 MiB of FP32 are 6,553,600 elements.
TEST(TraceTest, CollectivesHaveKinetosArguments) {
  forecast::Run run = TwoSteps();
  const auto arguments = [&](CollectiveKind kind) {
    run.classes[0].program.collectives[0].kind = kind;
    run.classes[0].program.collectives[0].data_type = DataType::kFp32;
    for (const json& event : Events(json::parse(Written(run, 1)), "X")) {
      if (event.at("args").contains("Collective name")) return event.at("args");
    }
    return json();
  };
  json args = arguments(CollectiveKind::kAllReduce);
  EXPECT_EQ(args.at("Collective name"), "allreduce");
  EXPECT_EQ(args.at("In msg nelems"), 6'553'600);
  EXPECT_EQ(args.at("Out msg nelems"), 6'553'600);
  EXPECT_EQ(args.at("Group size"), 4);
  EXPECT_EQ(args.at("dtype"), "Float");
  EXPECT_EQ(args.at("Process Group Name"), "0");
  EXPECT_EQ(args.at("Process Group Description"), "data");
  EXPECT_EQ(args.at("Process Group Ranks"), "[0, 1, 2, 3]");
  args = arguments(CollectiveKind::kAllGather);
  EXPECT_EQ(args.at("Collective name"), "_allgather_base");
  EXPECT_EQ(args.at("In msg nelems"), 1'638'400);
  EXPECT_EQ(args.at("Out msg nelems"), 6'553'600);
  args = arguments(CollectiveKind::kReduceScatter);
  EXPECT_EQ(args.at("Out msg nelems"), 1'638'400);
  const json groups = json::parse(Written(run)).at("distributedInfo").at("pg_config");
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].at("pg_name"), "0");
  EXPECT_EQ(groups[0].at("ranks"), json({0, 1, 2, 3}));
}

// For a run that settled late, memory of the written steps includes buffers of earlier steps.
TEST(TraceTest, StepsBeforeTheForecastOneAreWrittenOnRequest) {
  forecast::Run run = TwoSteps();
  for (std::uint32_t step = 2; step < 5; ++step) {
    const Time begin = stepcast::Microseconds(20) * step;
    run.classes[0].timeline.operations.push_back({1, step, begin + stepcast::Microseconds(1), begin,
                                                  begin, begin + stepcast::Microseconds(20)});
    run.classes[0].timeline.memory.push_back({0, step, begin + stepcast::Microseconds(1)});
    run.classes[0].timeline.memory.push_back({6, step, begin + stepcast::Microseconds(2)});
    run.classes[0].timeline.step_ends.push_back(begin + stepcast::Microseconds(20));
  }
  run.first_step = 4;
  const json trace = json::parse(Written(run, 3));
  std::vector<int> steps;
  for (const json& event : Events(trace, "X")) {
    if (event.at("tid") == 2) steps.push_back(event.at("args").at("step"));
    EXPECT_GE(event.at("ts").get<double>(), 40.0);
  }
  EXPECT_THAT(steps, testing::ElementsAre(2, 3, 4));
  EXPECT_TRUE(Events(trace, "s").empty());
  for (const json& event : Events(trace, "C")) EXPECT_GE(event.at("ts").get<double>(), 40.0);
}

// The peak is in the first step, which is not written.
TEST(TraceTest, CountersReachBackToThePeak) {
  forecast::Run run = TwoSteps();
  for (std::uint32_t step = 2; step < 5; ++step) {
    run.classes[0].timeline.step_ends.push_back(stepcast::Microseconds(20) * (step + 1));
  }
  run.first_step = 4;
  const json trace = json::parse(Written(run));
  std::int64_t most = 0;
  for (const json& event : Events(trace, "C")) {
    if (event.at("name") != "memory: gradients") continue;
    most = std::max(most, event.at("args").at("bytes").get<std::int64_t>());
  }
  EXPECT_EQ(most, 4 << 20);
}

TEST(TraceTest, CountersFollowAllocationsInHostTime) {
  const json trace = json::parse(Written(TwoSteps()));
  std::map<std::string, std::vector<std::pair<double, std::int64_t>>> counters;
  for (const json& event : Events(trace, "C")) {
    counters[event.at("name")].emplace_back(event.at("ts").get<double>(),
                                            event.at("args").at("bytes").get<std::int64_t>());
  }
  using Point = std::pair<double, std::int64_t>;
  EXPECT_EQ(counters.size(), 6U);
  EXPECT_THAT(counters["memory: parameters"], testing::ElementsAre(Point(0.0, 8 << 20)));
  EXPECT_THAT(counters["memory: gradients"],
              testing::ElementsAre(Point(0.0, 0), Point(1.0, 4 << 20), Point(2.0, 0),
                                   Point(21.0, 4 << 20), Point(22.0, 0)));
}

TEST(TraceTest, ThePeakOfAnInstantIsShown) {
  forecast::Run run = TwoSteps();
  for (program::MemoryRecord& record : run.classes[0].timeline.memory) record.time = Time();
  const json trace = json::parse(Written(run));
  std::vector<std::int64_t> gradients;
  for (const json& event : Events(trace, "C")) {
    if (event.at("name") == "memory: gradients") gradients.push_back(event.at("args").at("bytes"));
  }
  EXPECT_THAT(gradients, testing::ElementsAre(4 << 20, 0));
}

// In each step: k0 -> all-reduce, all-reduce -> k1, k1 -> the host's wait.
TEST(TraceTest, ArrowsLeadFromTheEventsOperationToWhoWaited) {
  const json trace = json::parse(Written(TwoSteps()));
  std::map<int, std::pair<std::pair<int, double>, std::pair<int, double>>> arrows;
  for (const json& event : Events(trace, "s")) {
    arrows[event.at("id")].first = {event.at("tid"), event.at("ts")};
  }
  for (const json& event : Events(trace, "f")) {
    EXPECT_EQ(event.at("bp"), "e");
    arrows[event.at("id")].second = {event.at("tid"), event.at("ts")};
  }
  ASSERT_EQ(arrows.size(), 6U);
  EXPECT_EQ(arrows[0], std::make_pair(std::make_pair(2, 0.0), std::make_pair(3, 10.0)));
  EXPECT_EQ(arrows[1], std::make_pair(std::make_pair(3, 10.0), std::make_pair(2, 14.5)));
  EXPECT_EQ(arrows[2], std::make_pair(std::make_pair(2, 14.5), std::make_pair(1, 4.0)));
  EXPECT_EQ(arrows[3], std::make_pair(std::make_pair(2, 20.0), std::make_pair(3, 30.0)));
}

TEST(TraceTest, TheSameRunGivesTheSameBytes) {
  EXPECT_EQ(Written(TwoSteps()), Written(TwoSteps()));
}

TEST(TraceTest, WritesInPiecesAndStopsAtTheFirstError) {
  forecast::Run run = TwoSteps();
  // Enough labeled operations for several pieces: 2,000 more kernels in sequence.
  for (int i = 0; i < 2000; ++i) {
    const Time start = stepcast::Microseconds(40 + i);
    run.classes[0].timeline.operations.push_back(
        {1, 1, start, start, start, start + stepcast::Microseconds(1)});
  }
  int pieces = 0;
  std::size_t largest = 0;
  ASSERT_TRUE(WriteTrace(run, {"", 0, 1}, [&](std::string_view bytes) {
                ++pieces;
                largest = std::max(largest, bytes.size());
                return tl::expected<void, std::string>();
              }).has_value());
  EXPECT_GT(pieces, 3);
  EXPECT_LT(largest, 80'000U);

  int calls = 0;
  const auto failed = WriteTrace(run, {"", 0, 1}, [&](std::string_view) {
    ++calls;
    return tl::expected<void, std::string>(tl::unexpected(std::string("disk full")));
  });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), "disk full");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace stepcast::report
