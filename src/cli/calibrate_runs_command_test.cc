#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/cli/command_test.h"

// Tests `stepcast calibrate runs` end to end: a table of measured steps, the report on it, and
// forecasts with the written profile.
namespace stepcast::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 2, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

class CalibrateRunsTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::ofstream(Path("s.yaml")) << kScenario;
  }

  json Simulated(const std::string& set) const {
    const ShellResult result = Run("simulate " + Path("s.yaml") + " " + set + " --json");
    EXPECT_EQ(result.status, 0) << result.messages;
    return json::parse(result.output);
  }

  // Writes runs that took `ratio` of their forecasts.
  void WriteRuns(double ratio) const {
    std::ofstream table(Path("runs.csv"));
    table << "name,scenario,micro_batch_size,step_time_s,reserved,split\n";
    for (const int size : {1, 2, 4, 8, 16}) {
      const json forecast = Simulated(fmt::format("--set training.micro_batch_size={}", size));
      table << fmt::format("size {},s.yaml,{},{},{} B,{}\n", size, size,
                           ratio * forecast.at("step_time_s").get<double>(),
                           forecast.at("memory").at("reserved_bytes").get<std::int64_t>(),
                           size == 16 ? "check" : "fit");
    }
  }
};

TEST_F(CalibrateRunsTest, ForecastsUseWhatRunsTaught) {
  WriteRuns(1.1);
  const ShellResult learned =
      Run(fmt::format("calibrate runs {} --output {}", Path("runs.csv"), Path("mine.yaml")));
  ASSERT_EQ(learned.status, 0) << learned.messages << learned.output;
  EXPECT_THAT(OneLine(learned.output), HasSubstr("4 are learned from, of 4 configurations"));
  EXPECT_THAT(learned.output, HasSubstr("learned from the other configurations"));
  EXPECT_THAT(learned.output, HasSubstr("error on held-back runs"));
  EXPECT_THAT(OneLine(learned.output), HasSubstr("h100-sxm.yaml with 4 configurations"));

  const std::string mine = "--set calibration=" + Path("mine.yaml");
  for (const int size : {2, 16}) {  // measured, and held back
    const std::string set = fmt::format("--set training.micro_batch_size={}", size);
    const json before = Simulated(set);
    const json after = Simulated(set + " " + mine);
    EXPECT_NEAR(after.at("step_time_s").get<double>() / before.at("step_time_s").get<double>(), 1.1,
                0.02);
    EXPECT_GT(after.at("learned").at("known").get<double>(), 0.5);
    double sum = 0;
    for (const auto& [part, seconds] : after.at("time_s").items()) sum += seconds.get<double>();
    EXPECT_NEAR(sum, after.at("step_time_s").get<double>(), 1e-9);
    EXPECT_EQ(after.at("time_s").at("forward"), before.at("time_s").at("forward"));
    EXPECT_FALSE(before.contains("learned"));
  }
}

// A sweep's row equals the forecast of its combination, and a search finds the best plan.
TEST_F(CalibrateRunsTest, SweepsAndPlansUseItAsWell) {
  WriteRuns(1.1);
  ASSERT_EQ(
      Run(fmt::format("calibrate runs {} --output {}", Path("runs.csv"), Path("mine.yaml"))).status,
      0);
  const std::string mine = "--set calibration=" + Path("mine.yaml");
  const json rows = json::parse(Run("sweep " + Path("s.yaml") + " " + mine +
                                    " --vary training.micro_batch_size=1,2,4 --json")
                                    .output)
                        .at("rows");
  double best = 1e9;
  for (const json& row : rows) {
    const std::string size = row.at("set").at("training.micro_batch_size");
    EXPECT_EQ(row.at("step_time_s"),
              Simulated(mine + " --set training.micro_batch_size=" + size).at("step_time_s"));
  }
  const ShellResult swept =
      Run("sweep " + Path("s.yaml") + " " + mine +
          " --set training.gradient_accumulation=null --set training.global_batch_size=32"
          " --vary training.micro_batch_size=1,2,4"
          " --vary training.activation_checkpointing=none,selective,full"
          " --vary 'data_parallel.bucket_size=1 MiB,25 MiB' --json");
  const json swept_rows = json::parse(swept.output).at("rows");
  for (const json& row : swept_rows) {
    if (row.at("status") == "ok") best = std::min(best, row.at("step_time_s").get<double>());
  }
  const ShellResult planned = Run("plan " + Path("s.yaml") + " " + mine +
                                  " --framework ddp --only data"
                                  " --vary 'data_parallel.bucket_size=1 MiB,25 MiB'"
                                  " --fix data_parallel.gradient_as_bucket_view"
                                  " --fix training.compile --fix training.loss --json");
  EXPECT_EQ(json::parse(planned.output).at("best").at(0).at("step_time_s").get<double>(), best);
}

TEST_F(CalibrateRunsTest, WhatDoesNotHelpIsNotWritten) {
  // Two similar runs whose errors contradict each other.
  std::ofstream(Path("runs.csv")) << "scenario,training.micro_batch_size,step_time\n"
                                     "s.yaml,1,150 ms\ns.yaml,2,20 ms\n";
  const ShellResult one =
      Run(fmt::format("calibrate runs {} --output {}", Path("runs.csv"), Path("mine.yaml")));
  EXPECT_EQ(one.status, 3) << one.messages;
  EXPECT_FALSE(std::filesystem::exists(Path("mine.yaml")));
}

TEST_F(CalibrateRunsTest, ASingleRunTeachesOneFactor) {
  std::ofstream(Path("runs.csv")) << "scenario,step_time\ns.yaml,60 ms\n";
  const ShellResult one =
      Run(fmt::format("calibrate runs {} --output {}", Path("runs.csv"), Path("mine.yaml")));
  EXPECT_EQ(one.status, 0) << one.messages;
  EXPECT_THAT(OneLine(one.output), HasSubstr("no other configuration checks this"));
  EXPECT_TRUE(std::filesystem::exists(Path("mine.yaml")));
}

TEST_F(CalibrateRunsTest, MistakesStandWhereTheTableHasThem) {
  std::ofstream(Path("runs.csv")) << "scenario,training.precision,step_time\n"
                                     "s.yaml,bf17,1 s\ns.yaml,bf16,1 parsec\n";
  const ShellResult wrong = Run("calibrate runs " + Path("runs.csv"));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.output, "");
  EXPECT_THAT(wrong.messages, HasSubstr("runs.csv:3:13: error[input."));
  EXPECT_EQ(Run("calibrate runs " + Path("none.csv")).status, 2);
}

}  // namespace
}  // namespace stepcast::cli
