// Tests `stepcast execute` and `stepcast validate` end to end on the host backend: their output,
// and how failing runs end. Times are not checked, since the machine may be busy.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "src/cli/command_test.h"

namespace stepcast::cli {
namespace {

using nlohmann::json;

constexpr const char* kBinary = "src/cli/stepcast";

// Two ranks; a step takes about 14 ms.
std::string Scenario(const std::string& folder) {
  const std::string path = folder + "/scenario.yaml";
  std::ofstream(path) << R"(stepcast: 1
name: Two ranks
model:
  kind: layers
  layers:
    - {name: block, repeat: 2, parameters: [4000, 200], forward: 2 ms, backward: 4 ms,
       activation: 1 MiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 2, memory: 1 GiB, link: {latency: 50 us, bandwidth: 500 MB/s}}
training: {sequence_length: 128, micro_batch_size: 1, precision: fp32, optimizer: adamw,
           gradient_accumulation: 1}
data_parallel: {zero_stage: 0, framework: ddp, bucket_size: 8 KiB}
)";
  return path;
}

class ExecuteTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const given = std::getenv("TEST_TMPDIR");
    folder_ = fmt::format("{}/execute.{}.{}", given == nullptr ? "/tmp" : given, ::getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    scenario_ = Scenario(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `rest` follows scenario and backend.
  std::string Command(const std::string& command, const std::string& rest) const {
    return fmt::format("{} {} '{}' --backend host {}", kBinary, command, scenario_, rest);
  }
  ShellResult Execute(const std::string& rest) const { return Shell(Command("execute", rest)); }

  static std::string Mpirun(int ranks) {
    return fmt::format(
        "mpirun --oversubscribe --allow-run-as-root --mca mpi_yield_when_idle 1 "
        "--mca btl self,vader,tcp -n {} ",
        ranks);
  }
  static bool NoMpirun() { return std::system("command -v mpirun >/dev/null") != 0; }

  // Runs under mpirun, with rank R's process id in the file pid.R.
  std::string MpirunWithPids(int ranks, const std::string& command) const {
    return fmt::format(
        "{} sh -c 'echo $$ > \"$0/new.$OMPI_COMM_WORLD_RANK\"; "
        "mv \"$0/new.$OMPI_COMM_WORLD_RANK\" \"$0/pid.$OMPI_COMM_WORLD_RANK\"; exec \"$@\"' '{}' "
        "{}",
        Mpirun(ranks), folder_, command);
  }
  // Sends a signal to a rank after it has run for a while, and waits for mpirun to end.
  ShellResult Disturb(int ranks, const std::string& command, int rank, const char* signal) const {
    return Shell(
        fmt::format("{} & run=$!; n=0; while [ ! -s '{}/pid.{}' ] && [ $n -lt 200 ]; do sleep 0.1; "
                    "n=$((n + 1)); done; sleep 2; kill -{} $(cat '{}/pid.{}'); wait $run",
                    MpirunWithPids(ranks, command), folder_, rank, signal, folder_, rank));
  }
  // Whether a process started by this test still exists.
  bool SomebodyIsLeft() const {
    return Shell(fmt::format("for i in 1 2 3 4 5 6 7 8 9 10; do "
                             "ps -eo args | grep -F '{}' | grep -v grep >/dev/null || exit 0; "
                             "sleep 0.3; done; exit 1",
                             scenario_))
               .status != 0;
  }

  // The number of files besides the scenario and those written by this test.
  int FilesLeft() const {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      files += name != "scenario.yaml" && name.rfind("pid.", 0) != 0;
    }
    return files;
  }

  std::string folder_;
  std::string scenario_;
};

void ExpectSumsUp(const json& document, std::size_t steps) {
  EXPECT_EQ(document["stepcast"], 1);
  EXPECT_EQ(document["backend"], "host");
  EXPECT_EQ(document["steps_s"].size(), steps);
  double sum = 0;
  for (const auto& [part, seconds] : document["time_s"].items()) sum += seconds.get<double>();
  const double step = document["step_time_s"];
  EXPECT_NEAR(sum, step, 1e-9);
  // Only sleeps: two layers of 2 + 4 ms and the optimizer's 1 ms.
  EXPECT_GE(step, 0.013);
  ASSERT_EQ(document["ranks"].size(), 2u);
  EXPECT_EQ(document["ranks"][1]["rank"], 1);
  // One bucket for each of the two layers.
  ASSERT_EQ(document["communication"]["collectives"].size(), 1u);
  const json& collective = document["communication"]["collectives"][0];
  EXPECT_EQ(collective["collective"], "all_reduce");
  EXPECT_EQ(collective["calls"], 2);
  EXPECT_EQ(collective["provenance"], "measured");
  // 8,400 parameters in FP32, of which 2 (N - 1)/N are sent.
  EXPECT_EQ(document["communication"]["bytes_per_rank"], 8400 * 4);
}

TEST_F(ExecuteTest, ThreadsOfOneProcess) {
  const ShellResult result = Execute("--steps 3 --warmup 1 --json");
  ASSERT_EQ(result.status, 0) << result.messages;
  const json document = json::parse(result.output);
  ExpectSumsUp(document, 3);
  const ShellResult forecast = Shell(fmt::format("{} simulate '{}' --json", kBinary, scenario_));
  EXPECT_EQ(document["memory"]["peak_bytes"], json::parse(forecast.output)["memory"]["peak_bytes"]);
}

// DeepSpeed's buckets have 500 million elements, a gigabyte in 16 bits on each of the two ranks,
// for any model; these have 16,384 parameters. The touched part shows in the largest resident
// memory of all processes of this test.
TEST_F(ExecuteTest, BucketsTakeUpWhatIsWrittenToThem) {
  const std::string path = folder_ + "/deepspeed.yaml";
  std::ofstream(path) << R"(stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 4, parameters: [4096], forward: 1 ms, backward: 2 ms, activation: 1 KiB}
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 2, memory: 80 GiB, link: {latency: 50 us, bandwidth: 500 MB/s}}
training: {sequence_length: 128, micro_batch_size: 1, precision: bf16, optimizer: adamw,
           gradient_accumulation: 1}
data_parallel: {zero_stage: 1, framework: deepspeed}
)";
  for (const int stage : {1, 2, 3}) {
    const ShellResult result =
        Shell(fmt::format("{} execute '{}' --backend host --set data_parallel.zero_stage={} --json",
                          kBinary, path, stage));
    ASSERT_EQ(result.status, 0) << result.messages;
    EXPECT_GE(json::parse(result.output)["memory"]["peak_bytes"], 1'000'000'000);
  }
  rusage usage{};
  ASSERT_EQ(::getrusage(RUSAGE_CHILDREN, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 512 * 1024) << "KiB";
}

TEST_F(ExecuteTest, BetweenBarriers) {
  const ShellResult result = Execute("--steps 3 --barrier --json");
  ASSERT_EQ(result.status, 0) << result.messages;
  const json document = json::parse(result.output);
  ExpectSumsUp(document, 3);
  EXPECT_EQ(document["resolved"]["training"]["step_barrier"], true);
}

TEST_F(ExecuteTest, UnderMpirunRank0AloneSpeaks) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  const ShellResult result = Shell(Mpirun(2) + Command("execute", "--steps 3 --json"));
  ASSERT_EQ(result.status, 0) << result.messages;
  ExpectSumsUp(json::parse(result.output), 3);
  EXPECT_EQ(result.messages, "");
}

TEST_F(ExecuteTest, TrainsAsPlainDataParallelismDoes) {
  for (const char* plan : {"zero_stage: 0, framework: ddp", "zero_stage: 3, framework: fsdp2",
                           "zero_stage: 2, framework: reference"}) {
    const ShellResult result =
        Execute(fmt::format("--steps 1 --warmup 0 --check --set 'data_parallel={{{}}}'", plan));
    EXPECT_EQ(result.status, 0) << plan;
    EXPECT_NE(result.messages.find("equal the values of plain data parallelism (bit by bit)"),
              std::string::npos)
        << result.messages;
  }
}

// Stages with several chunks are neighbors twice, and send in both directions. All members make
// communicators in one order.
TEST_F(ExecuteTest, PipelinesTrainUnderMpirun) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  const std::string pipeline =
      "--steps 1 --warmup 0 --check --timeout '60 s' --set model.layers.0.repeat=4 "
      "--set model.layers.0.output='64 B' --set 'data_parallel={zero_stage: 0, framework: "
      "reference}' --set training.gradient_accumulation=4 --set 'parallelism={pipeline: 2, ";
  for (const char* schedule : {"virtual_stages: 2", "schedule: breadth_first, virtual_stages: 2",
                               "schedule: zb_h1", "schedule: zb_v", "schedule: dualpipe_v"}) {
    const ShellResult result = Shell(Mpirun(2) + Command("execute", pipeline + schedule + "}'"));
    EXPECT_EQ(result.status, 0) << schedule << "\n" << result.messages;
    EXPECT_NE(result.messages.find("equal the values of plain data parallelism (bit by bit)"),
              std::string::npos)
        << schedule << "\n"
        << result.messages;
  }
}

TEST_F(ExecuteTest, TextHasTheFigures) {
  const ShellResult result = Execute("--steps 2");
  ASSERT_EQ(result.status, 0) << result.messages;
  for (const char* part : {"run on     host, 2 ranks on 1 host, 2 steps measured", "step time",
                           "where the time goes", "all_reduce  data", "memory of rank 0"}) {
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
  }
}

TEST_F(ExecuteTest, TraceHasAProcessForEachRank) {
  const std::string trace = folder_ + "/trace.json";
  ASSERT_EQ(Execute(fmt::format("--steps 2 --trace '{}'", trace)).status, 0);
  std::ifstream in(trace);
  const json document = json::parse(in);
  std::set<int> processes;
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] != "X") continue;
    processes.insert(event["pid"].get<int>());
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_GE(event["dur"].get<double>(), 0);
  }
  EXPECT_EQ(processes, (std::set<int>{0, 1}));
}

TEST_F(ExecuteTest, ValidateComparesAndAnswers) {
  const std::string trace = folder_ + "/both.json";
  const ShellResult yes = Shell(
      Command("validate", fmt::format("--steps 3 --within 100000% --json --trace '{}'", trace)));
  ASSERT_EQ(yes.status, 0) << yes.messages;
  const json document = json::parse(yes.output);
  EXPECT_EQ(document["ok"], true);
  const json& step = document["step_time_s"];
  EXPECT_NEAR(step["forecast_s"].get<double>() - step["measured_s"].get<double>(),
              step["difference_s"].get<double>(), 1e-12);
  // If ranks waited for one another, there is imbalance too.
  EXPECT_GE(document["time_s"].size(), 5u);
  EXPECT_EQ(document["peak_bytes"]["difference"], 0);
  int calls = 0;
  for (const json& kind : document["operations"]) {
    if (kind["operation"] == "all_reduce (data)") calls = kind["calls"];
  }
  EXPECT_EQ(calls, 2);
  EXPECT_LE(document["largest_differences"].size(), 10u);
  std::ifstream in(trace);
  EXPECT_NE(json::parse(in).dump().find("forecast: rank 0"), std::string::npos);

  const ShellResult no = Shell(Command("validate", "--steps 1 --within 0%"));
  EXPECT_EQ(no.status, 3);
  EXPECT_NE(no.output.find("not within 0.0 %"), std::string::npos) << no.output;
  EXPECT_EQ(Shell(Command("validate", "--within 10")).status, 2);

  // The host is not an A100; the other tests' scenario has no GPU type.
  constexpr const char* kWarning = "the host backend measured the CPUs of this machine";
  EXPECT_EQ(no.messages.find(kWarning), std::string::npos) << no.messages;
  const ShellResult other = Shell(Command("validate",
                                          "--steps 1 --set cluster.topology.gpu=a100-sxm-80gb "
                                          "--set cluster.topology.memory=null"));
  EXPECT_NE(other.messages.find(kWarning), std::string::npos) << other.messages;
}

TEST_F(ExecuteTest, WrongInputIsSaidOnceAndEndsWith2) {
  const ShellResult backend =
      Shell(fmt::format("{} execute '{}' --backend gpu --timeout 3", kBinary, scenario_));
  EXPECT_EQ(backend.status, 2);
  EXPECT_EQ(backend.output, "");
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  const ShellResult three = Shell(Mpirun(3) + Command("execute", ""));
  EXPECT_EQ(three.status, 2);
  EXPECT_EQ(three.output, "");
  const std::string sentence = "the plan needs 2 devices, but 3 ranks were started";
  const std::size_t first = three.messages.find(sentence);
  ASSERT_NE(first, std::string::npos) << three.messages;
  EXPECT_EQ(three.messages.find(sentence, first + 1), std::string::npos) << three.messages;
}

TEST_F(ExecuteTest, AllMistakesAreSaidAtOnce) {
  const ShellResult result = Shell(
      fmt::format("{} validate '{}' --backend host --graph --timeout 3 --within 5 --set stepcast=7",
                  kBinary, scenario_));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  for (const char* code : {"command.no-graph", "--timeout: error[command.bad-quantity]",
                           "--within: error[command.bad-quantity]", "--set stepcast=7: error"}) {
    EXPECT_NE(result.messages.find(code), std::string::npos) << code << "\n" << result.messages;
  }
}

TEST_F(ExecuteTest, RanksWithDifferentPlansDoNotStart) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  const ShellResult result =
      Shell(Mpirun(2) +
            "sh -c 'exec \"$@\" --set data_parallel.bucket_size=${OMPI_COMM_WORLD_RANK}KiB' sh " +
            Command("execute", "--json"));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  EXPECT_NE(result.messages.find("launch.different-plans"), std::string::npos) << result.messages;
  EXPECT_NE(result.messages.find("rank 1 on '"), std::string::npos) << result.messages;
  // mpirun terminates the second rank when the first has ended; that is not an interruption.
  EXPECT_EQ(result.messages.find("interrupted"), std::string::npos) << result.messages;
}

TEST_F(ExecuteTest, TooLittleMemoryNamesRankAndOperation) {
  const ShellResult result = Execute("--set 'cluster.topology.memory=1 MiB'");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(result.messages.rfind("stepcast: rank ", 0), 0u) << result.messages;
  EXPECT_NE(result.messages.find("allocate 'block."), std::string::npos) << result.messages;
  EXPECT_NE(result.messages.find("out of memory"), std::string::npos) << result.messages;
}

TEST_F(ExecuteTest, AnInterruptionLeavesNothingBehind) {
  for (const auto& [signal, status] : {std::pair("INT", 130), std::pair("TERM", 143)}) {
    const ShellResult result = Shell(fmt::format(
        "timeout --preserve-status -s {} 2 {}", signal,
        Command("execute", fmt::format("--steps 10000 --trace '{}/trace.json'", folder_))));
    EXPECT_EQ(result.status, status);
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(result.messages, "stepcast: interrupted\n");
    EXPECT_EQ(FilesLeft(), 0);
  }
}

TEST_F(ExecuteTest, AFullDiskLeavesNoFile) {
  // A limit on file sizes, in units of 512 bytes, simulates a full disk.
  const ShellResult result =
      Shell("ulimit -f 8; " +
            Command("execute", fmt::format("--steps 3 --trace '{}/trace.json' | cat", folder_)));
  EXPECT_EQ(result.output, "");
  EXPECT_NE(result.messages.find("stepcast: cannot write"), std::string::npos) << result.messages;
  EXPECT_EQ(FilesLeft(), 0);
  EXPECT_EQ(Execute(fmt::format("--steps 1 --trace '{}/trace.json'", folder_)).status, 0);
}

TEST_F(ExecuteTest, AKilledRankEndsTheRunWithItsName) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  for (const int rank : {1, 0}) {
    const ShellResult result = Disturb(
        2, Command("execute", fmt::format("--steps 10000 --trace '{}/trace.json'", folder_)), rank,
        "KILL");
    EXPECT_NE(result.status, 0);
    EXPECT_EQ(result.output, "");
    const std::string start = fmt::format("stepcast: rank {} on '", rank);
    const std::size_t said = result.messages.find(start);
    ASSERT_NE(said, std::string::npos) << result.messages;
    EXPECT_NE(result.messages.find("has ended unexpectedly; the rank was at ", said),
              std::string::npos)
        << result.messages;
    EXPECT_EQ(result.messages.find("stepcast: ", said + 1), std::string::npos) << result.messages;
    EXPECT_FALSE(SomebodyIsLeft());
    // If rank 0 is killed, it cannot remove its unfinished file.
    if (rank != 0) {
      EXPECT_EQ(FilesLeft(), 0);
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/trace.json"));
    std::filesystem::remove(fmt::format("{}/pid.0", folder_));
    std::filesystem::remove(fmt::format("{}/pid.1", folder_));
  }
}

TEST_F(ExecuteTest, AStoppedRankEndsTheRunWithinTheTimeout) {
  if (NoMpirun()) GTEST_SKIP() << "mpirun is not there";
  const ShellResult result =
      Disturb(2, Command("execute", "--steps 10000 --timeout 4s"), 1, "STOP");
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.messages.find("stepcast: rank 1 on '"), std::string::npos) << result.messages;
  EXPECT_NE(result.messages.find("sent no heartbeat in the last 3200 ms"), std::string::npos)
      << result.messages;
  EXPECT_FALSE(SomebodyIsLeft());
}

}  // namespace
}  // namespace stepcast::cli
