#include <filesystem>
#include <fstream>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "src/cli/command_test.h"

// Tests traced steps end to end: `explain --measured TRACE` and `calibrate trace`, on traces that
// `simulate` writes.
namespace stepcast::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 4, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 0, framework: ddp}
)";

class CalibrateTraceTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::ofstream(Path("s.yaml")) << kScenario;
  }

  // The step of the scenario with `set`, which is traced.
  double Trace(const std::string& set) const {
    const ShellResult result = Run(
        fmt::format("simulate {} {} --trace {} --json", Path("s.yaml"), set, Path("t.json")));
    EXPECT_EQ(result.status, 0) << result.messages;
    return json::parse(result.output).at("step_time_s").get<double>();
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
  const ShellResult used = Run(fmt::format("simulate {} --set calibration={} --json",
                                           Path("s.yaml"), Path("mine.yaml")));
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
  EXPECT_THAT(code(fmt::format("explain {} --measured none.json", s)),
              HasSubstr("file.not-found"));
  EXPECT_THAT(code(fmt::format("explain {} --measured 5.2", s)), HasSubstr("or name a trace"));
  std::filesystem::create_directories(Path("empty"));
  EXPECT_THAT(code(fmt::format("calibrate trace {} --scenario {}", Path("empty"), s)),
              HasSubstr("traced.no-traces"));
}

}  // namespace
}  // namespace stepcast::cli
