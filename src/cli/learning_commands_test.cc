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

namespace stepcast::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class LearningTest : public CommandTest {
 protected:
  void WriteScenario(const char* topology, int micro_batch_size, int gradient_accumulation) const {
    std::ofstream(Path("s.yaml")) << fmt::format(
        R"(stepcast: 1
model: models/gpt2.yaml
cluster: {{topology: topologies/{}.yaml, nodes: 1}}
training: {{sequence_length: 1024, micro_batch_size: {}, gradient_accumulation: {}, precision: bf16,
           optimizer: adamw}}
data_parallel: {{zero_stage: 0, framework: ddp}}
)",
        topology, micro_batch_size, gradient_accumulation);
  }

  // `options`: settings, and files to write.
  json Simulated(const std::string& options) const {
    const ShellResult result = Run("simulate " + Path("s.yaml") + " " + options + " --json");
    EXPECT_EQ(result.status, 0) << result.messages;
    return json::parse(result.output);
  }
};

// Tests `stepcast calibrate runs` end to end: a table of measured steps, the report on it, and
// forecasts with the written profile.
class CalibrateRunsTest : public LearningTest {
 protected:
  void SetUp() override {
    LearningTest::SetUp();
    WriteScenario("dgx-h100", 2, 2);
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
  EXPECT_THAT(OneLine(learned.output),
              HasSubstr("the profile learns from 4 runs of 4 configurations"));
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
  EXPECT_THAT(OneLine(one.output), HasSubstr("no other configuration confirms the factor"));
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

// Tests traced steps end to end: `explain --measured TRACE` and `calibrate trace`, on traces that
// `simulate` writes.
class CalibrateTraceTest : public LearningTest {
 protected:
  void SetUp() override {
    LearningTest::SetUp();
    WriteScenario("dgx-a100", 4, 1);
  }

  // The step of the scenario with `set`, which is traced.
  double Trace(const std::string& set) const {
    return Simulated(set + " --trace " + Path("t.json")).at("step_time_s").get<double>();
  }
};

// With eager attention, most of the difference is in kernels; its causes add up.
TEST_F(CalibrateTraceTest, ExplainDividesTheDifference) {
  const double measured = Trace("--set training.attention=math");
  const ShellResult explained =
      Run(fmt::format("explain {} --measured {} --json", Path("s.yaml"), Path("t.json")));
  ASSERT_EQ(explained.status, 0) << explained.messages;
  const json step = json::parse(explained.output).at("measured");
  EXPECT_NEAR(step.at("step_time_s").get<double>(), measured, 1e-9);
  const json& traced = step.at("traced");
  double sum = traced.at("remainder_s").get<double>() - traced.at("learned_s").get<double>();
  for (const json& cause : traced.at("causes")) sum += cause.at("difference_s").get<double>();
  EXPECT_NEAR(sum, step.at("difference_s").get<double>(), 1e-9);
  const ShellResult text =
      Run(fmt::format("explain {} --measured {}", Path("s.yaml"), Path("t.json")));
  EXPECT_THAT(text.output, HasSubstr("elementwise kernels"));
  EXPECT_THAT(text.output, HasSubstr("remainder"));
}

TEST_F(CalibrateTraceTest, AProfileIsWrittenAndUsed) {
  const double traced = Trace("--set training.micro_batch_size=4");
  const ShellResult learned = Run(fmt::format("calibrate trace {} --scenario {} --output {} --json",
                                              Path("t.json"), Path("s.yaml"), Path("mine.yaml")));
  ASSERT_EQ(learned.status, 0) << learned.messages;
  const json answer = json::parse(learned.output);
  EXPECT_NEAR(answer.at("learned_step_s").get<double>(), traced, 0.02 * traced);
  const ShellResult used = Run(
      fmt::format("simulate {} --set calibration={} --json", Path("s.yaml"), Path("mine.yaml")));
  ASSERT_EQ(used.status, 0) << used.messages;
  EXPECT_EQ(json::parse(used.output).at("step_time_s"), answer.at("learned_step_s"));
}

TEST_F(CalibrateTraceTest, WrongInputIsNamed) {
  const auto code = [&](const std::string& command) {
    const ShellResult result = Run(command);
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_EQ(result.output, "") << command;
    return result.messages;
  };
  const std::string s = Path("s.yaml");
  EXPECT_THAT(code(fmt::format("explain {} --measured {}", s, s)), HasSubstr("file.not-json"));
  EXPECT_THAT(code(fmt::format("explain {} --measured none.json", s)), HasSubstr("file.not-found"));
  EXPECT_THAT(code(fmt::format("explain {} --measured 5.2", s)),
              HasSubstr("a trace, or a folder with one trace"));
  std::filesystem::create_directories(Path("empty"));
  EXPECT_THAT(code(fmt::format("calibrate trace {} --scenario {}", Path("empty"), s)),
              HasSubstr("traced.no-traces"));
}

}  // namespace
}  // namespace stepcast::cli
