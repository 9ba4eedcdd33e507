// Runs the binary like a user: exit status, stdout, stderr and files.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/cli/command_test.h"

namespace stepcast::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kToy = R"(stepcast: 1
name: toy
model:
  kind: layers
  layers:
    - {name: block, repeat: 4, parameters: [262144], forward: 1 ms, backward: 2 ms}
  optimizer_step: 1 ms
cluster:
  topology:
    kind: flat
    devices: 4
    memory: 1 GiB
    link: {latency: 5 us, bandwidth: 25 GB/s}
training:
  sequence_length: 128
  micro_batch_size: 1
  gradient_accumulation: 1
  precision: bf16
  optimizer: adamw
data_parallel:
  zero_stage: 0
  framework: reference
)";

class MainTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::ofstream(Path("toy.yaml")) << kToy;
  }
};

TEST_F(MainTest, HelpAndVersionAreDone) {
  for (const char* arguments : {"--help", "simulate --help", "memory --help", "sweep --help",
                                "topology --help", "topology show --help"}) {
    const ShellResult result = Run(arguments);
    EXPECT_EQ(result.status, 0) << arguments;
    EXPECT_THAT(result.output, HasSubstr("Usage: stepcast")) << arguments;
    EXPECT_THAT(result.output, HasSubstr("Example:")) << arguments;
    EXPECT_THAT(result.output, HasSubstr("Exit status:")) << arguments;
    EXPECT_EQ(result.messages, "") << arguments;
  }
  const ShellResult version = Run("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.output, testing::MatchesRegex("stepcast [0-9.]+\n"
                                                    "commit +[^\n]+\n"
                                                    "backends host[^\n]*\n"));
}

// A copy of the program in a separate folder, to which tests add other programs.
class HandOverTest : public MainTest {
 protected:
  void SetUp() override {
    MainTest::SetUp();
    fs::copy_file(fs::canonical(kBinary), Path("stepcast"));
  }

  ShellResult RunCopy(const std::string& arguments) const {
    return Shell(Path("stepcast") + " " + arguments);
  }

  void PutBeside(const std::string& script) const {
    const std::string path = Path("stepcast-hardware");
    std::ofstream(path) << "#!/bin/sh\n" << script;
    fs::permissions(path, fs::perms::owner_all);
  }
};

TEST_F(HandOverTest, SaysWhereToGetTheOtherProgram) {
  for (const char* arguments : {"execute toy.yaml --backend host",
                                "validate toy.yaml --backend host", "calibrate --backend host"}) {
    const ShellResult result = RunCopy(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.output, "") << arguments;
    EXPECT_THAT(result.messages, HasSubstr("[command.no-hardware]")) << arguments;
    EXPECT_THAT(result.messages, HasSubstr(fs::canonical(folder_).string())) << arguments;
  }
  EXPECT_THAT(
      RunCopy("--version").output,
      HasSubstr(
          "backends unavailable, because the program stepcast-hardware is not in the folder"));
  // A forecast needs no second program.
  EXPECT_EQ(RunCopy("simulate " + Path("toy.yaml")).status, 0);
}

TEST_F(HandOverTest, TheOtherProgramGetsTheSameWordsAndItsStatusIsTheAnswer) {
  PutBeside("for word; do echo \"[$word]\"; done\necho failed >&2\nexit 3\n");
  const ShellResult result = RunCopy("execute 'a b.yaml' --backend host --set x.y='1 ms'");
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "[execute]\n[a b.yaml]\n[--backend]\n[host]\n[--set]\n[x.y=1 ms]\n");
  EXPECT_EQ(result.messages, "failed\n");
  // Mistakes on the command line are found first.
  EXPECT_THAT(RunCopy("execute a.yaml --bakend host").messages, HasSubstr("--backend"));
  EXPECT_THAT(RunCopy("--version").output, HasSubstr("cannot start"));
}

// Under mpirun the program with MPI takes over; a single rank does not need it.
TEST_F(HandOverTest, SweepsOnSeveralRanksAreHandedOver) {
  PutBeside("echo \"rank of $OMPI_COMM_WORLD_SIZE\"\n");
  const std::string sweep = fmt::format("{} sweep {} --vary data_parallel.zero_stage=0,1",
                                        Path("stepcast"), Path("toy.yaml"));
  EXPECT_EQ(Shell("export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1\n" + sweep).output,
            "rank of 2\n");
  EXPECT_THAT(Shell("export OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0\n" + sweep).output,
              HasSubstr("zero_stage"));
  fs::remove(Path("stepcast-hardware"));
  const ShellResult first = Shell("export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0\n" + sweep);
  EXPECT_EQ(first.status, 2);
  EXPECT_THAT(first.messages, HasSubstr("[command.no-hardware]"));
  const ShellResult second =
      Shell("export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1\n" + sweep);
  EXPECT_EQ(second.status, 2);
  EXPECT_EQ(second.messages, "");  // rank 0 has printed it
}

TEST_F(MainTest, WrongCommandLinesExitWith2AndAHint) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"simlate x", "did you mean 'simulate'?"},
      {"topology shwo x", "did you mean 'show'?"},
      {"simulate x --jsn", "did you mean '--json'?"},
      {"sweep x --vari a=1", "did you mean '--vary'?"},
      {"collective x --set cluster.nodes 2", "write --set cluster.nodes=2"},
      {"simulate x --set cluster.nodes 2", "write --set cluster.nodes=2"},
      {"--nothing-like-it", "stepcast --help lists the commands"},
      {"simulate", "for example: stepcast simulate"},
      {"list", "the value of WHAT must be one of models, topologies, gpus"},
      {"topology show a b", "write stepcast topology show FILE [OPTIONS]"},
      {"collective x all_reduce 1GB", "write stepcast collective x --op all_reduce --to 1GB"},
      {"simulate x --set", "for example: --set training.micro_batch_size=1"},
      {"simulate x --gpus a --gpus b", "the command line contains --gpus 2 times"},
      {"simulate x --gpus h100 --gpus 8", "write --gpus '8 x h100'"},
      {"simulate x --gpu h100 --gpus 8", "write --gpus '8 x h100'"},
      {"simulate x --report out.png", "write --report out.html"},
      {"simulate x --trace out.pdf", "write --trace out.json"},
      {"topology dgx-h100", "write stepcast topology show dgx-h100, or "},
      {"simulate x --json --program", "cannot be used together"},
      {"sweep x --vary a=1 --json --csv", "cannot be used together"},
      {"simulate x --sequence-length 8k", "write --sequence-length 8192"},
      {"simulate x --tp 2", "write --set parallelism.tensor=2"},
      {"simulate x --vary a=1", "--vary is an option of stepcast sweep"},
      {"validate x", "write stepcast validate x --backend"},
      {"memory x --fit-probability 2", "--fit-probability needs a number from 0 to 1, not '2'"},
      {"simulate x --trace ''", "the value of --trace is empty"},
      {"execute x --backend host --trace ''", "the value of --trace is empty"},
      {"validate x --backend host --trace ''", "the value of --trace is empty"},
      {"calibrate --backend host --output ''", "the value of --output is empty"},
      {"calibrate --backend host --resume ''", "the value of --resume is empty"},
      {"calibrate import a.log --output a.log", "it would overwrite the file that LOG reads"},
      {"model import --kineto a.gz --output ./a.gz",
       "it would overwrite the file that --kineto reads"},
      {"validate published --update a.md --report a.md", "lead to the same file"},
      {"topology", "write stepcast topology show, or stepcast topology import"},
      {"topology show x --nodes many", "many"},
      {"", "Usage: stepcast"},
  };
  for (const auto& [arguments, hint] : cases) {
    const ShellResult result = Run(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.output, "") << arguments;
    EXPECT_THAT(result.messages, HasSubstr(hint)) << arguments;
  }
}

// A scenario is complete, so further arguments are mistakes.
TEST_F(MainTest, ArgumentsBesideAScenarioAreNamed) {
  const std::string toy = Path("toy.yaml");
  const ShellResult words = Run("run-time " + toy + " --tokens 1 trillion");
  EXPECT_EQ(words.status, 2);
  EXPECT_THAT(words.messages, HasSubstr(": 'trillion'\n"));
  EXPECT_THAT(words.messages, HasSubstr("put the value in quotes"));
  fs::copy_file(toy, Path("other.yaml"));
  EXPECT_THAT(Run("simulate " + toy + " " + Path("other.yaml")).messages,
              HasSubstr("run stepcast compare " + toy + " " + Path("other.yaml")));
}

TEST_F(MainTest, BlanksAroundTheSignOfASettingAreIgnored) {
  const std::string simulate = "simulate " + Path("toy.yaml") + " --json --set ";
  const ShellResult blanks = Run(simulate + "'training.micro_batch_size = 2'");
  EXPECT_EQ(blanks.status, 0) << blanks.messages;
  EXPECT_THAT(blanks.output, HasSubstr("with training.micro_batch_size=2"));
}

TEST_F(MainTest, MissingDataAreNamed) {
  fs::create_directory(Path("empty"));
  for (const char* arguments : {"list models", "simulate llama3.1-8b --gpus '8 x h100'"}) {
    const ShellResult result =
        Shell(fmt::format("STEPCAST_DATA='{}' {} {}", Path("empty"), kBinary, arguments));
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_THAT(OneLine(result.messages), HasSubstr("set STEPCAST_DATA to the folder with"))
        << arguments;
  }
}

// Assumptions are shown only with an answer.
TEST_F(MainTest, AModelsAssumptionsComeWithItsForecast) {
  const std::string simulate = "simulate llama3.2-1b --gpus '8 x H100'";
  const ShellResult right = Run(simulate);
  EXPECT_EQ(right.status, 0) << right.messages;
  EXPECT_THAT(right.messages, HasSubstr("assumed: "));
  const ShellResult wrong = Run(simulate + " --set training.precision=bf17");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.messages, testing::Not(HasSubstr("assumed: ")));
}

TEST_F(MainTest, ARecipeThatAnswersToANameIsAssumed) {
  EXPECT_THAT(Run("simulate llama3-8b --cluster dgx-h100 --nodes 2").messages,
              HasSubstr("assumed: the settings of Megatron-Bridge's recipe llama3_8b (to use "
                        "the model without the recipe, write llama3.1-8b); "));
}

TEST_F(MainTest, GpusBesideAClusterBecomeItsNodes) {
  const ShellResult both = Run("simulate llama3.2-1b --cluster dgx-h100 --gpus 16");
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.messages, HasSubstr("write --cluster dgx-h100 --nodes 2 without --gpus"));
  EXPECT_THAT(Run("simulate " + Path("toy.yaml") + " --nodes 2 --gpus '8 x h100-sxm'").messages,
              HasSubstr("write --cluster TOPOLOGY --nodes N without --gpus"));
}

TEST_F(MainTest, AComparisonNeedsASecondPlan) {
  const ShellResult alone = Run("compare " + Path("toy.yaml"));
  EXPECT_EQ(alone.status, 2);
  EXPECT_EQ(alone.output, "");
  EXPECT_THAT(alone.messages, HasSubstr("the second scenario (B) is missing"));
  EXPECT_THAT(alone.messages, HasSubstr("stepcast compare " + Path("toy.yaml") + " --set-b "));
}

TEST_F(MainTest, TextOfAnotherKindIsNoScenario) {
  for (const char* text : {"# Title\n\n**bold**: [a](b)\n\t- c: d: e\n", "words\n"}) {
    std::ofstream(Path("README.md")) << text;
    const ShellResult result = Run("simulate " + Path("README.md"));
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.messages, HasSubstr("error[file.not-a-scenario]"));
    EXPECT_THAT(result.messages, HasSubstr("write the path of a scenario, such as "));
    EXPECT_THAT(result.messages, testing::Not(HasSubstr("well-formed")));
  }
}

TEST_F(MainTest, FilesOfModelsAndTopologiesAreTaken) {
  const std::string gpus = " --gpus '8 x h100-sxm'";
  EXPECT_EQ(Run("simulate models/llama3.2-1b.yaml" + gpus).output,
            Run("simulate llama3.2-1b" + gpus).output);
  EXPECT_THAT(Run("simulate topologies/dgx-h100.yaml").messages,
              HasSubstr("--cluster topologies/dgx-h100.yaml"));
  EXPECT_THAT(Run("simulate scenarios/gpt2-ddp").messages,
              HasSubstr("scenarios/gpt2-ddp/scenario.yaml"));
  EXPECT_THAT(Run("simulate llama3.2-1b --cluster H100").messages,
              HasSubstr("write --gpus '8 x h100-sxm', or --cluster dgx-h100"));
  EXPECT_THAT(Run("topology show dgx-h800").messages, HasSubstr("did you mean '"));
  EXPECT_EQ(Run("topology show DGX-H100").output, Run("topology show dgx-h100").output);
  EXPECT_EQ(Run("list gpu").output, Run("list gpus").output);
}

TEST_F(MainTest, SimulatePrintsAPageOrOneDocument) {
  const ShellResult text = Run("simulate " + Path("toy.yaml"));
  EXPECT_EQ(text.status, 0) << text.messages;
  EXPECT_THAT(text.output, StartsWith("toy\n\nmodel "));
  EXPECT_THAT(text.output, HasSubstr("fits: "));

  const ShellResult document = Run("simulate " + Path("toy.yaml") + " --json");
  EXPECT_EQ(document.status, 0);
  const json parsed = json::parse(document.output);
  EXPECT_EQ(parsed.at("stepcast"), 1);
  EXPECT_EQ(parsed.at("parameters"), 4 * 262144);
  EXPECT_TRUE(parsed.at("mfu").is_null());
  double sum = 0;
  for (const auto& [phase, seconds] : parsed.at("time_s").items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, parsed.at("step_time_s").get<double>(), 1e-12);
  // Forward, backward and optimizer are as given: 4 x 1, 4 x 2 and 1 ms.
  EXPECT_NEAR(parsed.at("time_s").at("forward").get<double>(), 4e-3, 1e-12);
  EXPECT_NEAR(parsed.at("time_s").at("backward").get<double>(), 8e-3, 1e-12);
  EXPECT_NEAR(parsed.at("time_s").at("optimizer").get<double>(), 1e-3, 1e-12);
}

TEST_F(MainTest, SetOverridesAndResolvedEchoesIt) {
  const ShellResult result = Run("simulate " + Path("toy.yaml") +
                                 " --set training.micro_batch_size=2 --json"
                                 " --set 'data_parallel.bucket_size=1 MiB'");
  ASSERT_EQ(result.status, 0) << result.messages;
  const json resolved = json::parse(result.output).at("resolved");
  EXPECT_EQ(resolved.at("training").at("micro_batch_size"), 2);
  EXPECT_EQ(resolved.at("data_parallel").at("bucket_size"), "1 MiB");
}

TEST_F(MainTest, SetReplacesOtherOptions) {
  const ShellResult result = Run("simulate " + Path("toy.yaml") +
                                 " --global-batch 4 --set training.global_batch_size=8"
                                 " --set training.gradient_accumulation=null --json");
  ASSERT_EQ(result.status, 0) << result.messages;
  EXPECT_EQ(json::parse(result.output).at("resolved").at("training").at("gradient_accumulation"),
            2);
  EXPECT_THAT(result.messages,
              HasSubstr("--set training.global_batch_size=8 replaces training.global_batch_size=4, "
                        "which another option sets"));
}

TEST_F(MainTest, ASearchTakesMicroBatchesThatAStepCanHave) {
  const ShellResult result =
      Run("plan gpt2 --gpus '1 x rtx-4090' --global-batch 4096 --framework ddp --within 1s");
  EXPECT_EQ(result.status, 0) << result.messages;
  EXPECT_THAT(result.output, HasSubstr("training.micro_batch_size=2"));
}

// The file is the output of `calibrate --output here.yaml`.
TEST_F(MainTest, SetNamesFilesOfTheWorkingDirectory) {
  fs::create_directory(Path("here"));
  std::ofstream(Path("here/mine.yaml")) << "name: mine\nprovenance: {machine: lab}\n";
  const std::string simulate = fmt::format(
      "top=$PWD; cd '{}' && STEPCAST_DATA=$top \"$top/{}\" simulate ../toy.yaml --json "
      "--set calibration=",
      Path("here"), kBinary);
  const ShellResult found = Shell(simulate + "mine.yaml");
  ASSERT_EQ(found.status, 0) << found.messages;
  // Absolute, so that it is valid in every folder.
  const std::string profile = json::parse(found.output).at("resolved").at("calibration");
  EXPECT_THAT(profile, StartsWith("/"));
  EXPECT_TRUE(fs::equivalent(profile, Path("here/mine.yaml"))) << profile;
  const ShellResult missing = Shell(simulate + "other.yaml");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.messages, HasSubstr(", and in the working directory\n"));
}

TEST_F(MainTest, WrongInputIsNamedWithItsPlace) {
  std::ofstream(Path("bad.yaml")) << std::string(kToy) + "surprise: 1\n";
  const ShellResult result =
      Run("simulate " + Path("bad.yaml") + " --json --set training.micro_batch_size=none");
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.messages, HasSubstr(Path("bad.yaml") + ":23:1: error["));
  EXPECT_THAT(result.messages, HasSubstr("surprise"));
  EXPECT_THAT(result.messages, HasSubstr("--set training.micro_batch_size=none"));

  EXPECT_EQ(Run("simulate " + Path("none.yaml")).status, 2);
  EXPECT_EQ(Run("memory " + Path("none.yaml")).status, 2);
  EXPECT_EQ(Run("sweep " + Path("none.yaml") + " --vary a=1").status, 2);
  EXPECT_EQ(Run("topology show " + Path("none.yaml")).status, 2);
}

TEST_F(MainTest, WhatDoesNotFitIsPrintedAndExitsWith3) {
  const std::string large = Path("toy.yaml") + " --set cluster.topology.memory='2 MiB'";
  const ShellResult result = Run("simulate " + large);
  EXPECT_EQ(result.status, 3) << result.messages;
  EXPECT_THAT(result.output, HasSubstr("does not fit: "));
  EXPECT_EQ(json::parse(Run("simulate --json " + large).output).at("memory").at("fits"), false);
  EXPECT_EQ(Run("memory " + large).status, 3);
  const ShellResult whole = Run("run-time --tokens 1B " + large);
  EXPECT_EQ(whole.status, 3) << whole.messages;
  EXPECT_THAT(whole.output, HasSubstr("memory     does not fit: "));
  EXPECT_EQ(json::parse(Run("run-time --tokens 1B --json " + large).output).at("memory").at("fits"),
            false);
  const ShellResult swept = Run("sweep " + large + " --vary training.micro_batch_size=1,2 --json");
  EXPECT_EQ(swept.status, 0);
  EXPECT_EQ(json::parse(swept.output).at("rows").at(0).at("status"), "does_not_fit");
}

// The device has little more memory than the forecast needs: the probability is slightly above 1/2.
TEST_F(MainTest, WhatMayNotFitIsWarnedOfAndExitsWith4WhereAsked) {
  const std::string step =
      "scenarios/gpt2-ddp/scenario.yaml --set parallelism.data=2 --set cluster.nodes=null --set "
      "'cluster.topology={kind: flat, devices: 2, gpu: a100-sxm-80gb, memory: ";
  const auto on = [&](std::int64_t bytes) {
    return step + std::to_string(bytes) + " B, link: {latency: 5 us, bandwidth: 25 GB/s}}' ";
  };
  constexpr std::int64_t kLarge = 80LL << 30;
  const json roomy = json::parse(Run("simulate --json " + on(kLarge)).output).at("memory");
  EXPECT_EQ(roomy.at("verdict"), "fits");
  EXPECT_GT(roomy.at("fit_probability"), 0.9);
  const std::int64_t reserved = roomy.at("reserved_bytes");
  const std::string tight =
      on(reserved + roomy.at("outside_bytes").get<std::int64_t>() + reserved / 1000);

  const ShellResult text = Run("simulate " + tight);
  EXPECT_EQ(text.status, 0) << text.messages;
  EXPECT_THAT(text.output, HasSubstr("may not fit: "));
  EXPECT_THAT(text.messages, HasSubstr("warning: the plan may not fit"));
  const json memory = json::parse(Run("simulate --json " + tight).output).at("memory");
  EXPECT_EQ(memory.at("fits"), true);
  EXPECT_EQ(memory.at("verdict"), "may_not_fit");
  EXPECT_NEAR(memory.at("fit_probability"), 0.526, 0.002);

  for (const char* command : {"simulate ", "memory ", "explain ", "run-time --tokens 1B "}) {
    const ShellResult asked = Run(command + tight + "--fit-probability 0.9");
    EXPECT_EQ(asked.status, 4) << asked.messages;
    EXPECT_FALSE(asked.output.empty());
    EXPECT_THAT(asked.messages, HasSubstr("less than the required --fit-probability 0.9"));
    EXPECT_EQ(Run(command + tight + "--fit-probability 0.5").status, 0);
    // A forecast that does not fit has priority.
    EXPECT_EQ(Run(command + on(reserved / 2) + "--fit-probability 0.9").status, 3);
  }
  EXPECT_EQ(Run("simulate " + tight + "--fit-probability 90").status, 2);
  const ShellResult swept = Run("sweep --json " + tight + "--vary training.micro_batch_size=1,4");
  EXPECT_EQ(swept.status, 0);
  EXPECT_EQ(json::parse(swept.output).at("rows").at(1).at("verdict"), "may_not_fit");
  const ShellResult compared =
      Run("compare " + on(reserved / 2) + "--set-b training.step_barrier=true");
  EXPECT_EQ(compared.status, 0) << compared.messages;
}

TEST_F(MainTest, TheSameInputGivesTheSameBytes) {
  const auto without_run = [](const std::string& text) {
    json document = json::parse(text);
    document.erase("run");
    return document.dump();
  };
  const std::string simulate = "simulate " + Path("toy.yaml") + " --json --trace ";
  const std::string one = Run(simulate + Path("one.json")).output;
  const std::string two = Run(simulate + Path("two.json")).output;
  EXPECT_EQ(without_run(one), without_run(two));
  EXPECT_EQ(Read(Path("one.json")), Read(Path("two.json")));
  EXPECT_GT(fs::file_size(Path("one.json")), 1000U);
}

TEST_F(MainTest, ATraceIsWholeOrNotThere) {
  const std::string simulate = "simulate " + Path("toy.yaml") + " --trace ";
  EXPECT_EQ(Run(simulate + Path("trace.json")).status, 0);
  EXPECT_TRUE(json::parse(Read(Path("trace.json"))).contains("traceEvents"));

  const ShellResult nowhere = Run(simulate + Path("no/trace.json"));
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_EQ(nowhere.output, "");
  EXPECT_THAT(nowhere.messages, HasSubstr("the folder of the output does not exist"));

  const ShellResult full = Run(simulate + "/dev/full");
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.output, "");
  EXPECT_THAT(full.messages, HasSubstr("No space left on device"));

  const ShellResult wrong = Run(simulate + Path("other.json") + " --set training.precision=bf17");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(Files(), testing::ElementsAre("toy.yaml", "trace.json"));
}

// Viewers nest slices of one track, so streams and host must do one thing at a time.
TEST_F(MainTest, SlicesOfARealTraceDoNotOverlap) {
  const ShellResult result =
      Run("simulate scenarios/gpt2-ddp/scenario.yaml --json --trace " + Path("gpt2.json"));
  ASSERT_EQ(result.status, 0) << result.messages;
  const json trace = json::parse(Read(Path("gpt2.json")));
  std::map<int, std::vector<std::pair<double, double>>> tracks;  // start and end, microseconds
  double peak = 0;
  std::map<std::string, double> memory;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") {
      const double start = event.at("ts");
      tracks[event.at("tid")].emplace_back(start, start + event.at("dur").get<double>());
    } else if (event.at("ph") == "C") {
      memory[event.at("name")] = event.at("args").at("bytes");
      double total = 0;
      for (const auto& [category, bytes] : memory) total += bytes;
      peak = std::max(peak, total);
    }
  }
  EXPECT_EQ(tracks.size(), 4U);  // steps, host, compute, communication
  constexpr double kPicosecond = 1e-6;
  for (auto& [track, slices] : tracks) {
    std::sort(slices.begin(), slices.end());
    for (std::size_t i = 1; i < slices.size(); ++i) {
      EXPECT_GE(slices[i].first, slices[i - 1].second - kPicosecond) << "track " << track;
    }
  }
  // Categories change one by one, so counters may pass through sums that never existed. They cannot
  // miss the peak.
  EXPECT_GE(peak, json::parse(result.output).at("memory").at("peak_bytes").get<double>());
}

TEST_F(MainTest, TracesByRankStandInAFolder) {
  const std::string folder = Path("traces");
  ASSERT_EQ(Run("simulate " + Path("toy.yaml") + " --trace-dir " + folder).status, 0);
  ASSERT_EQ(Run("simulate " + Path("toy.yaml") + " --trace-dir " + folder + "/").status, 0);
  const json trace = json::parse(Read(folder + "/rank-0.json"));
  EXPECT_EQ(trace.at("distributedInfo").at("rank"), 0);
  // A folder that cannot be made.
  const ShellResult result = Run("simulate " + Path("toy.yaml") + " --trace-dir /dev/null/traces");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.messages, HasSubstr("/dev/null/traces"));
}

TEST_F(MainTest, AReportIsWholeOrNotThere) {
  const std::string simulate = "simulate " + Path("toy.yaml") + " --report ";
  ASSERT_EQ(Run(simulate + Path("page.html")).status, 0);
  EXPECT_THAT(Read(Path("page.html")), testing::EndsWith("</html>\n"));
  EXPECT_EQ(Run(simulate + Path("no/page.html")).status, 2);
  EXPECT_EQ(Run(simulate + "''").status, 2);
  EXPECT_EQ(Run(simulate + Path("other.html") + " --program").status, 2);
  EXPECT_THAT(Files(), testing::ElementsAre("page.html", "toy.yaml"));
}

TEST_F(MainTest, AnswersHavePagesWithAVerdict) {
  const std::string toy = Path("toy.yaml"), page = Path("page.html");
  for (const std::string& command :
       {"compare " + toy + " --set-b training.micro_batch_size=1", "memory " + toy,
        "explain " + toy, "collective " + toy + " --to 1MiB",
        std::string("schedule --stages 2 --micro-batches 4")}) {
    const ShellResult alone = Run(command);
    const ShellResult result = Run(command + " --report " + page);
    EXPECT_EQ(result.status, alone.status) << result.messages;
    EXPECT_EQ(result.output, alone.output) << command;
    const std::string html = Read(page);
    constexpr std::size_t kMostBytes = 2'000'000;
    EXPECT_LE(html.size(), kMostBytes) << command;
    EXPECT_THAT(html, HasSubstr("<p class=\"verdict")) << command;
    EXPECT_THAT(html, HasSubstr("<figure data-chart")) << command;
    EXPECT_THAT(html, testing::EndsWith("</html>\n")) << command;
  }
}

// For every command's output: found before the work, with the same answer and a hint.
TEST_F(MainTest, AFolderThatDoesNotExistIsAMistake) {
  const std::string toy = Path("toy.yaml");
  const std::vector<std::string> commands = {
      "simulate " + toy + " --report " + Path("no/page.html"),
      "simulate " + toy + " --trace " + Path("no/trace.json"),
      "simulate " + toy + " --emit " + Path("no/plan"),
      "sweep " + toy + " --vary training.micro_batch_size=1 --report " + Path("no/page.html"),
      "sweep " + toy + " --vary training.micro_batch_size=1 --store " + Path("no/store"),
      "plan " + toy + " --report " + Path("no/page.html"),
      "compare " + toy + " --set-b training.micro_batch_size=1 --report " + Path("no/page.html"),
      "memory " + toy + " --report " + Path("no/page.html"),
      "explain " + toy + " --report " + Path("no/page.html"),
      "collective " + toy + " --report " + Path("no/page.html"),
      "schedule --stages 2 --micro-batches 4 --report " + Path("no/page.html"),
      "plan " + toy + " --emit " + Path("no/plan"),
      "plan " + toy + " --store " + Path("no/store"),
      "execute " + toy + " --backend host --trace " + Path("no/trace.json"),
      "validate " + toy + " --backend host --report " + Path("no/page.html"),
      "validate " + toy + " --backend host --trace " + Path("no/trace.json"),
      "simulate " + toy + " --trace-dir " + Path("no/traces"),
      "execute " + toy + " --backend host --trace-dir " + Path("no/traces"),
      "validate published --report " + Path("no/page.html"),
      "validate published --update " + Path("no/page.md"),
      "validate collectives --update " + Path("no/page.md"),
      "validate collectives --update " + toy,
  };
  for (const std::string& command : commands) {
    const ShellResult result = Run(command);
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_EQ(result.output, "") << command;
    EXPECT_THAT(result.messages, HasSubstr("hint: ")) << command;
  }
  // A plan replaces its folder, but never the working directory.
  fs::create_directory(Path("here"));
  const ShellResult here = Shell(fmt::format(
      "binary=$PWD/{} && cd {} && $binary simulate {} --emit .", kBinary, Path("here"), toy));
  EXPECT_EQ(here.status, 2);
  EXPECT_THAT(here.messages, HasSubstr("the working directory cannot be replaced"));
  EXPECT_THAT(Files(), testing::ElementsAre("here", "toy.yaml"));
}

TEST_F(MainTest, CompareNamesTheOptionOfAMistake) {
  const ShellResult result =
      Run("compare " + Path("toy.yaml") +
          " --set-a training.micro_batch_size=x --set-b training.micro_batch_sise=8");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.messages, HasSubstr("--set-a training.micro_batch_size=x: error["));
  EXPECT_THAT(result.messages, HasSubstr("--set-b training.micro_batch_sise=8: error["));
}

TEST_F(MainTest, PlansThatCannotMeanAnythingExitWith2) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--headroom '100 GiB'", "the memory of a device (1 GiB), but is '100 GiB'"},
      {"--deadline 200d", "--deadline needs the number of training tokens (--tokens)"},
      {"--tokens 15X", "the value of --tokens must be a number of tokens: '15X'"},
      {"--price free", "the price must be a number larger than 0: 'free'"},
      {"--tokens 1B --availability 110%",
       "the availability must be larger than 0 and at most 1: '110%'"},
      {"--framework ddp,ddp", "--framework lists the same framework twice: 'ddp'"},
      {"--framework ddp --vary data_parallel.prefetch=1",
       "no framework in the search supports this setting: 'data_parallel.prefetch'"},
      {"--framework ddp --vary data_parallel.zero_stage=3",
       "no framework in the search supports ZeRO stage 3"},
      {"--vary 'data_parallel.bucket_size=1 MiB,foo'", "bytes need a number and a unit: 'foo'"},
      {"--vary data_parallel.bucket_size=foo,25MiB,bar", "a number and a unit: 'foo', 'bar'"},
  };
  for (const auto& [arguments, message] : cases) {
    const ShellResult result = Run("plan " + Path("toy.yaml") + " " + arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.output, "") << arguments;
    EXPECT_THAT(result.messages, HasSubstr(message)) << arguments;
    EXPECT_THAT(result.messages, HasSubstr("hint: ")) << arguments;
  }
}

// Every plan has a verdict; settings missing in some frameworks are named.
TEST_F(MainTest, PlanAccountsForEveryPlan) {
  const std::string plan = "plan " + Path("toy.yaml") +
                           " --framework ddp,fsdp2 --vary data_parallel.prefetch=1,null --best 1 ";
  const ShellResult result = Run(plan + "--json");
  ASSERT_EQ(result.status, 0) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("--vary data_parallel.prefetch: ddp does not support"));
  const json document = json::parse(result.output);
  EXPECT_EQ(document.at("notes").size(), 1U);
  std::int64_t plans = 0;
  for (const json& part : document.at("became")) plans += part.at("count").get<std::int64_t>();
  EXPECT_EQ(plans, document.at("space"));
  const json& best = document.at("best").at(0);
  EXPECT_EQ(best.at("capacity_bytes").get<std::int64_t>() -
                best.at("reserved_bytes").get<std::int64_t>() -
                best.at("outside_bytes").get<std::int64_t>(),
            best.at("free_bytes"));
  // All outputs include the headroom in missing memory.
  const json lacking = json::parse(Run(plan + "--headroom 99.9% --json").output);
  const json& nearest = lacking.at("nearest").at(0);
  EXPECT_EQ(nearest.at("lacks_bytes").get<std::int64_t>(),
            static_cast<std::int64_t>(0.999 * (1 << 30) + 0.5) -
                nearest.at("free_bytes").get<std::int64_t>());
  EXPECT_THAT(nearest.at("reason").get<std::string>(), HasSubstr("including the headroom"));
}

// A step of four micro-batches has four times the tokens of one. It costs less than four times as
// much, since the update comes once. It is the better plan, though its step is longer.
TEST_F(MainTest, PlansOfUnequalTokensAreComparedByTokens) {
  const ShellResult result = Run(
      "plan " + Path("toy.yaml") +
      " --vary training.gradient_accumulation=1,4 --fix data_parallel.zero_stage --json --best 1");
  ASSERT_EQ(result.status, 0) << result.messages;
  const json document = json::parse(result.output);
  EXPECT_EQ(document.at("compared_by"), "time_per_token");
  EXPECT_EQ(document.at("best").at(0).at("set").at("training.gradient_accumulation"), "4");
  EXPECT_EQ(document.at("best").at(0).at("tokens"), 4 * 4 * 128);
}

TEST_F(MainTest, NoMicroBatchThatFitsIsANo) {
  const std::string memory =
      "memory scenarios/gpt2-ddp/scenario.yaml --max-micro-batch --set model=models/";
  EXPECT_EQ(Run(memory + "gpt3-175b.yaml").status, 3);
  // The scenario's own micro-batch does not fit, but smaller ones do.
  EXPECT_EQ(Run(memory + "gpt2.yaml --set training.micro_batch_size=1000").status, 0);
}

TEST_F(MainTest, ATerminalGetsATimelineAndAPipeDoesNot) {
  const std::string simulate = "simulate " + Path("toy.yaml");
  EXPECT_THAT(Run(simulate).output, testing::Not(HasSubstr("F forward")));
  const std::string drawn = Run(simulate + " --timeline").output;
  EXPECT_THAT(drawn, HasSubstr("F forward"));
  EXPECT_THAT(drawn, testing::Not(HasSubstr("\033[")));
  EXPECT_EQ(Run(simulate + " --timeline --json").status, 2);
  EXPECT_EQ(Run(simulate + " --timeline --no-timeline").status, 2);

  const auto in_terminal = [&](const std::string& environment, const std::string& arguments) {
    return Shell(fmt::format("script -qec 'stty cols 70; {} {} {}' /dev/null </dev/null",
                             environment, kBinary, arguments))
        .output;
  };
  EXPECT_THAT(in_terminal("NO_COLOR= TERM=xterm", simulate), HasSubstr("\033[30;48;5;75mF"));
  const std::string plain = in_terminal("NO_COLOR=1 TERM=xterm", simulate);
  EXPECT_THAT(plain, HasSubstr("F forward"));
  EXPECT_THAT(plain, testing::Not(HasSubstr("\033[")));
  EXPECT_THAT(in_terminal("NO_COLOR= TERM=dumb", simulate), testing::Not(HasSubstr("\033[")));
  EXPECT_THAT(in_terminal("TERM=xterm", simulate + " --no-timeline"),
              testing::Not(HasSubstr("F forward")));
}

TEST_F(MainTest, OutputThatCannotBeWrittenIsAFailure) {
  const std::string simulate = fmt::format("{} simulate {}", kBinary, Path("toy.yaml"));
  const ShellResult full = Shell(simulate + " >/dev/full");
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.messages, HasSubstr("No space left on device"));
  const ShellResult closed = Shell(simulate + " >&-");
  EXPECT_EQ(closed.status, 1);
}

// `stepcast sweep ... | head` closes the pipe early, which is not a failure.
TEST_F(MainTest, AReaderThatLeavesIsNoFailure) {
  const std::string simulate = fmt::format("{} simulate {}", kBinary, Path("toy.yaml"));
  const ShellResult gone = Shell("{ sleep 1; " + simulate + "; echo \"status $?\" >&2; } | true");
  EXPECT_EQ(gone.messages, "status 0\n");
}

// A long sweep, interrupted after a second.
TEST_F(MainTest, AnInterruptEndsWith130AndALine) {
  std::string values = "1";
  for (int i = 2; i <= 1000; ++i) values += fmt::format(",{}", i);
  const ShellResult result = Shell(fmt::format(
      "timeout --preserve-status --signal=INT 1 {} sweep {} --vary training.sequence_length={} "
      "--vary training.micro_batch_size={}",
      kBinary, Path("toy.yaml"), values, values));
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.messages, HasSubstr("stepcast: interrupted"));
}

TEST_F(MainTest, SweepRowsEqualSimulate) {
  const ShellResult swept =
      Run("sweep " + Path("toy.yaml") +
          " --vary data_parallel.zero_stage=0,3 --vary 'data_parallel.bucket_size=0 B,25 MiB'"
          " --vary data_parallel.framework=reference,ddp"
          " --vary training.gradient_clipping=null --json");
  ASSERT_EQ(swept.status, 0) << swept.messages;
  const json rows = json::parse(swept.output).at("rows");
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows.at(2).at("set").dump(),
            R"({"data_parallel.bucket_size":"25 MiB","data_parallel.framework":"reference",)"
            R"("data_parallel.zero_stage":"0","training.gradient_clipping":"null"})");
  EXPECT_EQ(rows.at(5).at("status"), "illegal");  // ddp at stage 3
  EXPECT_THAT(rows.at(5).at("reason").get<std::string>(), HasSubstr("zero_stage is 3"));
  for (const json& row : rows) {
    if (row.at("status") == "illegal") continue;
    std::string command = "simulate " + Path("toy.yaml") + " --json";
    for (const auto& [key, value] : row.at("set").items()) {
      command += fmt::format(" --set '{}={}'", key, value.get<std::string>());
    }
    const json single = json::parse(Run(command).output);
    EXPECT_EQ(row.at("step_time_s"), single.at("step_time_s")) << command;
    EXPECT_EQ(row.at("tokens_per_s_per_gpu"), single.at("tokens_per_s_per_gpu")) << command;
    for (const char* key : {"peak_bytes", "reserved_bytes", "outside_bytes", "capacity_bytes"}) {
      EXPECT_EQ(row.at(key), single.at("memory").at(key)) << key << " of " << command;
    }
    EXPECT_EQ(row.at("fits"), single.at("memory").at("fits")) << command;
  }
}

TEST_F(MainTest, SweepsThatCannotMeanAnythingExitWith2) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the command needs at least one --vary"},
      {"--vary training.precision", "the value of --vary must consist of a key and its values"},
      {"--vary training.precision=", "--vary has no values"},
      {"--vary training.precison=bf16,fp16", "did you mean 'training.precision'?"},
      {"--vary training.precison=bf16,fp16", "--vary training.precison=bf16: error["},
      {"--vary nonsense.key=1,2", "nonsense"},
      {"--vary training.precision=bf16 --set training.surprise=1", "surprise"},
      {"--vary 'training.micro_batch_size=64..1 x2'", "the range is empty"},
      {"--vary 'training.micro_batch_size=1..64'", "the range has no step"},
      {"--vary training.micro_batch_size=all", "cannot be used for 'training.micro_batch_size'"},
      {"--vary training.precison=all", "--vary training.precison=all: error[input.unknown-key]"},
      {"--vary 'training.micro_batch_size=1..10000 +1' "
       "--vary 'training.sequence_length=1..10000 +1' "
       "--vary 'training.gradient_accumulation=1..10000 +1'",
       "the sweep has 1000000000000 combinations, but one sweep can have at most 1000000"},
      {"--vary data_parallel.zero_stage=0,foo",
       "--vary data_parallel.zero_stage=foo: error[input.not-an-integer]"},
      {"--vary 'data_parallel.bucket_size=1,1 MiB'", "bytes need a unit: '1'"},
      {"--vary data_parallel.framework=ddp,dpp", "did you mean 'ddp'?"},
      {"--vary model=none.yaml", "refers to a file that does not exist: 'none.yaml'"},
      {"--vary data_parallel.bucket_sise=null", "did you mean 'data_parallel.bucket_size'?"},
      {"--vary training.micro_batch_size=[1,2]",
       "write the values without brackets: --vary 'training.micro_batch_size=1,2'"},
      {"--vary training.precision=bf16 --store /none/x.sqlite", "the store cannot be written"},
      {"--vary training.precision=bf16 --store ''", "the value of --store is empty"},
      {"--vary training.precision=bf16 --threads 0", "--threads"},
  };
  for (const auto& [arguments, message] : cases) {
    const ShellResult result = Run("sweep " + Path("toy.yaml") + " " + arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.output, "") << arguments;
    EXPECT_THAT(result.messages, HasSubstr(message)) << arguments;
  }
}

// null means the default, whether or not the scenario has the key, and in any position. A value may
// be illegal unless another varied key allows it.
TEST_F(MainTest, SweepTakesDefaultsAndWhatAnotherKeyAllows) {
  const auto rows = [&](const std::string& arguments) {
    const ShellResult result = Run("sweep " + Path("toy.yaml") + " --json " + arguments);
    EXPECT_EQ(result.status, 0) << result.messages;
    return json::parse(result.output).at("rows");
  };
  for (const char* values : {"null,1 MiB", "1 MiB,null"}) {
    for (const json& row : rows(fmt::format("--vary 'data_parallel.bucket_size={}'", values))) {
      EXPECT_EQ(row.at("status"), "ok") << row.dump();
    }
  }
  const json own = json::parse(Run("simulate " + Path("toy.yaml") + " --json").output);
  EXPECT_EQ(rows("--vary data_parallel.bucket_size=null").at(0).at("step_time_s"),
            own.at("step_time_s"));
  // Only a flat cluster has devices.
  const json topologies = rows(
      "--set model=models/gpt2.yaml"
      " --vary 'cluster={topology: topologies/dgx-h100.yaml, nodes: 1},{topology: {kind: flat, "
      "devices: 4, memory: 80 GiB, gpu: h100-sxm, link: {latency: 5 us, bandwidth: 25 GB/s}}}'"
      " --vary cluster.topology.devices=8");
  EXPECT_EQ(topologies.at(0).at("status"), "illegal");
  EXPECT_EQ(topologies.at(1).at("status"), "ok");
}

// The critical path adds up to the step; the contents at the peak add up to the peak.
TEST_F(MainTest, ExplainAddsUp) {
  const ShellResult result = Run("explain " + Path("toy.yaml") + " --json");
  ASSERT_EQ(result.status, 0) << result.messages;
  const json document = json::parse(result.output);
  double path = 0;
  for (const json& part : document.at("critical_path")) path += part.at("time_s").get<double>();
  EXPECT_NEAR(path, document.at("step_time_s").get<double>(), 1e-9);
  double exposed = 0;
  const json& communication = document.at("exposed_communication");
  for (const json& collective : communication.at("collectives")) {
    exposed += collective.at("exposed_s").get<double>();
  }
  EXPECT_NEAR(exposed, communication.at("total_s").get<double>(), 1e-9);
  std::int64_t bytes = 0;
  for (const json& content : document.at("memory_at_peak").at("contents")) {
    bytes += content.at("bytes").get<std::int64_t>();
  }
  EXPECT_EQ(bytes, document.at("memory").at("peak_bytes").get<std::int64_t>());
}

TEST_F(MainTest, MemoryShowsEveryStage) {
  const ShellResult result = Run("memory " + Path("toy.yaml") + " --json");
  ASSERT_EQ(result.status, 0) << result.messages;
  const json stages = json::parse(result.output).at("stages");
  ASSERT_EQ(stages.size(), 4U);
  // 4 x 262,144 = 2^20 parameters on 4 ranks; bf16 with AdamW: k = 12.
  constexpr std::int64_t kMillion = 1 << 20;
  const auto states = [](const json& bytes) {
    return bytes.at("parameters_bytes").get<std::int64_t>() +
           bytes.at("gradients_bytes").get<std::int64_t>() +
           bytes.at("optimizer_bytes").get<std::int64_t>();
  };
  EXPECT_EQ(states(stages.at(0).at("formula")), 16 * kMillion);
  EXPECT_EQ(states(stages.at(1).at("formula")), (4 + 12 / 4) * kMillion);
  EXPECT_EQ(states(stages.at(2).at("formula")), 2 * kMillion + 14 * kMillion / 4);
  EXPECT_EQ(states(stages.at(3).at("formula")), 16 * kMillion / 4);
  for (const json& stage : stages) {
    EXPECT_FALSE(stage.at("simulated").is_null()) << stage.dump();
    std::int64_t sum = 0;
    for (const char* category :
         {"parameters", "gradients", "optimizer", "activations", "communication", "workspace"}) {
      sum += stage.at("simulated").at(fmt::format("{}_bytes", category)).get<std::int64_t>();
    }
    EXPECT_EQ(sum, stage.at("simulated").at("peak_bytes").get<std::int64_t>());
  }
}

// Questions on stdin are answered in order, one line each.
TEST_F(MainTest, ServeAnswersEachLine) {
  std::ofstream(Path("questions"))
      << R"({"id": 1, "ask": "simulate", "scenario": ")" << Path("toy.yaml") << "\"}\n"
      << "no question\n"
      << R"({"id": "b", "ask": "sweep", "scenario": ")" << Path("toy.yaml")
      << R"(", "vary": {"data_parallel.zero_stage": [0, 1]}})"
      << "\n"
      << R"({"id": 3, "ask": "simulate", "scenario": "none.yaml"})"
      << "\n";
  const ShellResult result = Shell(fmt::format("{} serve <{}", kBinary, Path("questions")));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.messages, "");
  std::vector<json> answers;
  std::stringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 4U) << result.output;
  EXPECT_EQ(answers[0].at("id"), 1);
  const json simulated = json::parse(Run("simulate " + Path("toy.yaml") + " --json").output);
  EXPECT_EQ(answers[0].at("answer").at("step_time_s"), simulated.at("step_time_s"));
  EXPECT_EQ(answers[1].at("mistakes").at(0).at("code"), "question.not-json");
  EXPECT_EQ(answers[2].at("id"), "b");
  EXPECT_EQ(answers[2].at("answer").at("rows").size(), 2U);
  EXPECT_EQ(answers[3].at("mistakes").at(0).at("code"), "file.not-found");
}

TEST_F(MainTest, EveryCommandHasAManualPageAndIsCompleted) {
  const ShellResult list = Run("manual --list");
  EXPECT_EQ(list.status, 0);
  std::stringstream names(list.output);
  int pages = 0;
  for (std::string name; std::getline(names, name); ++pages) {
    const ShellResult page = Run("manual " + name);
    EXPECT_EQ(page.status, 0) << name;
    EXPECT_THAT(page.output, StartsWith(".TH STEPCAST")) << name;
    EXPECT_THAT(page.output, HasSubstr(".SH EXIT STATUS")) << name;
  }
  EXPECT_GT(pages, 20);
  EXPECT_THAT(Run("manual").output, HasSubstr(".BR stepcast\\-calibrate\\-import (1)"));
  EXPECT_THAT(Run("manual simlate").messages, HasSubstr("[command.unknown-command]"));
  EXPECT_EQ(Run("completion bash").status, 0);
  EXPECT_EQ(Run("completion csh").status, 2);
  EXPECT_THAT(Run("complete sim").output, StartsWith("simulate\t"));
  EXPECT_EQ(Run("complete simulate --network f").output, "flow\n");
  EXPECT_EQ(Run("complete sweep --vary training.micro").output, "training.micro_batch_size=\n");
  EXPECT_THAT(Run("complete init --model llama3.1-8").output, StartsWith("llama3.1-8b\n"));
  EXPECT_THAT(Run("complete validate ''").output, HasSubstr("published\t"));
}

TEST_F(MainTest, TheProgramIsShownWithItsVerdict) {
  const ShellResult result = Run("simulate " + Path("toy.yaml") + " --program");
  EXPECT_EQ(result.status, 0) << result.messages;
  EXPECT_THAT(result.output, StartsWith("valid: "));
  EXPECT_THAT(result.output, HasSubstr("all_reduce"));
}

// The data root does not depend on the working directory.
TEST_F(MainTest, ShippedFilesAreFoundFromAnyFolder) {
  const std::string binary = fs::absolute(kBinary).string();
  const ShellResult result =
      Shell(fmt::format("cd / && {} simulate scenarios/gpt2-ddp/scenario.yaml", binary));
  EXPECT_EQ(result.status, 0) << result.messages;
  EXPECT_THAT(result.output, StartsWith("GPT-2"));
  EXPECT_EQ(Shell(fmt::format("cd / && {} topology show topologies/dgx-h100.yaml", binary)).status,
            0);
  const ShellResult dot = Run("topology show topologies/dgx-h100.yaml --nodes 2 --dot");
  EXPECT_EQ(dot.status, 0) << dot.messages;
  EXPECT_THAT(dot.output, HasSubstr("graph"));
}

}  // namespace
}  // namespace stepcast::cli
