#include "src/scenario/runs_file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/scenario/load.h"

namespace stepcast::scenario {
namespace {

using testing::ElementsAre;

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-h100.yaml, nodes: 4}
training: {sequence_length: 1024, micro_batch_size: 2, gradient_accumulation: 4, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2}
)";

class RunsFileTest : public testing::Test {
 protected:
  RunsFileTest() : folder_(std::filesystem::path(testing::TempDir()) / "runs_file_test") {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "s.yaml") << kScenario;
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  Result<RunsTable> Load(const std::string& text, const std::string& scenario = "",
                         const std::vector<std::string>& set = {}) const {
    std::ofstream(folder_ / "runs.csv") << text;
    return LoadRunsTable(Path("runs.csv"), scenario, set);
  }
  std::vector<std::string> Faults(const std::string& text, const std::string& scenario = "") const {
    std::vector<std::string> faults;
    const auto table = Load(text, scenario);
    for (const Diagnostic& fault : table ? table->mistakes : table.error()) {
      faults.push_back(fault.code + " " + std::to_string(fault.location.line) + ":" +
                       std::to_string(fault.location.column));
    }
    return faults;
  }

  std::filesystem::path folder_;
};

TEST_F(RunsFileTest, RunsAreScenariosWithSettings) {
  const auto table = Load(
      "name,scenario,nodes,training.micro_batch_size,data_"
      "parallel.prefetch,step_time,reserved\n"
      "first,s.yaml,2,1,2,412 ms,61 GiB\n"
      ",s.yaml,,,,0.5 s,\n");
  ASSERT_TRUE(table.has_value()) << Format(table.error());
  ASSERT_EQ(table->runs.size(), 2U);
  const PublishedCase& first = table->runs[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.split, Split::kFit);
  EXPECT_EQ(first.step_time, Milliseconds(412));
  ASSERT_EQ(first.memory.size(), 1U);
  EXPECT_EQ(first.memory[0].kind, MemoryKind::kReserved);
  EXPECT_EQ(first.memory[0].peak, GiB(61));
  EXPECT_EQ(table->runs[1].name, "line 3");
  InputCache cache;
  const auto scenario = LoadTree(first.scenario, table->files[0], cache);
  ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
  EXPECT_EQ(scenario->cluster->nodes(), 2);
  EXPECT_EQ(scenario->plan.training.micro_batch_size, 1);
  EXPECT_EQ(scenario->plan.data_parallel.prefetch, 2);
  // Empty fields keep the scenario's values.
  const auto second = LoadTree(table->runs[1].scenario, table->files[1], cache);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->cluster->nodes(), 4);
}

TEST_F(RunsFileTest, OneScenarioForAllRuns) {
  const auto table = Load("micro_batch_size,tokens_per_s_per_gpu,split\n2,8064.7,check\n",
                          Path("s.yaml"), {"cluster.nodes=1"});
  ASSERT_TRUE(table.has_value()) << Format(table.error());
  EXPECT_EQ(table->runs[0].split, Split::kCheck);
  EXPECT_FALSE(table->runs[0].step_time.has_value());
  EXPECT_EQ(table->runs[0].tokens_per_second_per_gpu, 8064.7);
  InputCache cache;
  const auto scenario = LoadTree(table->runs[0].scenario, table->files[0], cache);
  ASSERT_TRUE(scenario.has_value()) << Format(scenario.error());
  EXPECT_EQ(scenario->cluster->nodes(), 1);
}

// Errors of scenario rules have positions in the table.
TEST_F(RunsFileTest, PositionsAreThoseOfTheTable) {
  const auto table = Load("step_time_s,training.precision\n0.5,bf17\n", Path("s.yaml"));
  ASSERT_TRUE(table.has_value()) << Format(table.error());
  InputCache cache;
  const auto scenario = LoadTree(table->runs[0].scenario, table->files[0], cache);
  ASSERT_FALSE(scenario.has_value());
  EXPECT_EQ(scenario.error()[0].location.file, Path("runs.csv"));
  EXPECT_EQ(scenario.error()[0].location.line, 2);
  EXPECT_EQ(scenario.error()[0].location.column, 5);
}

TEST_F(RunsFileTest, MistakesAreReportedAllAtOnce) {
  EXPECT_THAT(Faults("step_tim,scenario,split\n1 s,none.yaml,fitt\n,s.yaml,fit\n"),
              ElementsAre("runs.unknown-column 1:1", "input.unknown-word 2:15",
                          "runs.not-measured 2:1", "file.not-found 2:5", "runs.not-measured 3:1"));
  EXPECT_THAT(Faults("step_time\n5\n", Path("s.yaml")), ElementsAre("input.bad-quantity 2:1"));
  EXPECT_THAT(Faults("step_time\n5 s\n"), ElementsAre("runs.no-scenario 2:1"));
  EXPECT_THAT(Faults("nodes,step_time,step_time_s\n1,2 s,99\n2,,2\n", Path("s.yaml")),
              ElementsAre("runs.measured-twice 2:7"));
  EXPECT_THAT(Faults("step_time\n", Path("s.yaml")), ElementsAre("runs.none 0:0"));
}

}  // namespace
}  // namespace stepcast::scenario
