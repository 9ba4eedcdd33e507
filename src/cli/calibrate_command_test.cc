// Runs `stepcast calibrate` like a user, on threads of this machine. The machine may be busy, so
// measured values are not checked. The test checks that results are present, complete, and usable
// for a forecast.

#include <filesystem>
#include <fstream>
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
using testing::ElementsAre;
using testing::HasSubstr;

// Copies into buckets and launches take time on a device.
constexpr const char* kPair = R"(stepcast: 1
model:
  kind: layers
  layers: [{name: block, repeat: 4, parameters: [16384], forward: 1 ms, backward: 2 ms}]
  optimizer_step: 1 ms
cluster:
  topology: {kind: flat, devices: 2, memory: 1 GiB, gpu: host-cpu}
training:
  sequence_length: 128
  micro_batch_size: 1
  gradient_accumulation: 1
  precision: fp32
  optimizer: adamw
data_parallel: {zero_stage: 0, framework: ddp}
)";

using CalibrateCommandTest = CommandTest;

TEST_F(CalibrateCommandTest, MeasuresWhatAForecastUses) {
  const std::string profile = Path("profile.yaml");
  const std::string state = Path("state");
  const std::string command = fmt::format(
      "calibrate --backend host --quick --ranks 2 --only memory,collectives --to 64KiB "
      "--output {} --resume {} --json",
      profile, state);
  const ShellResult result = Run(command);
  ASSERT_EQ(result.status, 0) << result.messages;
  const json document = json::parse(result.output);
  EXPECT_EQ(document["stepcast"], 1);
  EXPECT_EQ(document["profile"], profile);
  // all-reduce, reduce-scatter, all-gather, all-to-all, and messages from rank to rank
  EXPECT_EQ(document["collectives"].size(), 5u);
  EXPECT_EQ(document["collectives"][0]["points"], 7);
  EXPECT_EQ(document["collectives"][0]["largest_bytes"], 65536);
  EXPECT_THAT(document["provenance"]["command"].get<std::string>(),
              HasSubstr("calibrate --backend host --quick"));
  EXPECT_TRUE(document["provenance"].contains("cpu"));
  EXPECT_THAT(Files(), ElementsAre("profile.yaml", "state"));
  EXPECT_THAT(Read(profile), HasSubstr("\ngpu: \"host-cpu\"\n"));

  std::ofstream(Path("pair.yaml")) << kPair;
  const ShellResult forecast =
      Run(fmt::format("simulate {} --set calibration=profile.yaml --json", Path("pair.yaml")));
  ASSERT_EQ(forecast.status, 0) << forecast.messages;
  // Threads of one machine, forecast as a flat cluster.
  EXPECT_THAT(forecast.messages, HasSubstr("measured over 2 ranks on 1 node"));
  // Four layers of 3 ms and the optimizer.
  EXPECT_GT(json::parse(forecast.output)["step_time_s"].get<double>(), 0.013);

  // Everything is known now: nothing is measured again, and only the profile's date differs.
  const std::string before = Read(state);
  ASSERT_EQ(Run(command).status, 0);
  EXPECT_EQ(Read(state), before);
}

TEST_F(CalibrateCommandTest, WrongOptionsComeOutTogether) {
  const ShellResult result = Run(
      "calibrate --backend gpu --only gem --types int8 --collectives reduce --from 12 --to 1MiB "
      "--timeout 3 --time 5s");
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  for (const char* text :
       {"unknown backend: 'gpu'", "unknown part: 'gem'", "choose from launch, memory",
        "unknown data type: 'int8'", "unknown collective: 'reduce'", "--from: error", "--timeout",
        "--time: error[command.bad-quantity]: must be between 10 s and 24 h: '5s'"}) {
    EXPECT_THAT(result.messages, HasSubstr(text));
  }
}

TEST_F(CalibrateCommandTest, NamesTheGroupsThatThereAre) {
  const ShellResult result =
      Run(fmt::format("calibrate --backend host --quick --ranks 4 --only collectives --groups 2,3 "
                      "--output {}",
                      Path("profile.yaml")));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.messages,
              HasSubstr("--groups: error[command.bad-group]: groups of 3 ranks with the same "
                        "number of GPUs on each node are impossible: 3\n"
                        "  hint: write sizes from this list after --groups: 2, 4\n"));
  EXPECT_TRUE(Files().empty());
}

TEST_F(CalibrateCommandTest, SaysAtOnceThatAFileCannotBeWritten) {
  const ShellResult result = Run(fmt::format(
      "calibrate --backend host --quick --ranks 2 --output {}", Path("nowhere/profile.yaml")));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.messages, HasSubstr("nowhere/profile.yaml"));
  EXPECT_TRUE(Files().empty());
}

TEST_F(CalibrateCommandTest, RefusesAForeignState) {
  std::ofstream(Path("state")) << "something else\n";
  const ShellResult result =
      Run(fmt::format("calibrate --backend host --quick --ranks 1 --output {} --resume {}",
                      Path("profile.yaml"), Path("state")));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.messages, HasSubstr("calibrate.other-state"));
  EXPECT_THAT(Files(), ElementsAre("state"));
  EXPECT_EQ(Read(Path("state")), "something else\n");
}

TEST_F(CalibrateCommandTest, HasAPage) {
  const ShellResult result = Run("calibrate --help");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("Usage: stepcast calibrate"));
  EXPECT_THAT(result.output, HasSubstr("--resume FILE"));
}

}  // namespace
}  // namespace stepcast::cli
