#include "src/stepcast.h"

#include <string>

#include "gtest/gtest.h"

namespace stepcast::library {
namespace {

constexpr const char* kDdp = "scenarios/gpt2-ddp/scenario.yaml";
constexpr const char* kLayers = R"(stepcast: 1
model:
  kind: layers
  layers: [{name: block, repeat: 4, parameters: [1024], forward: 1 ms, backward: 2 ms,
            activation: 0 B}]
  optimizer_step: 1 ms
cluster: {topology: {kind: flat, devices: 1, memory: 1 GiB}}
training: {sequence_length: 10, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: sgd}
data_parallel: {zero_stage: 0, framework: reference}
)";

TEST(Library, SimulatesAFile) {
  const auto simulation = Simulate({.path = kDdp});
  ASSERT_TRUE(simulation.has_value());
  EXPECT_GT(simulation->step_time, 0);
  EXPECT_TRUE(simulation->mfu.has_value());
  EXPECT_TRUE(simulation->memory.fits);
  EXPECT_NE(simulation->json.find("\"step_time_s\""), std::string::npos);
}

// Four layers of 3 ms and an update of 1 ms on one device: 13 ms, 10 tokens.
TEST(Library, SimulatesAText) {
  const auto simulation = Simulate({.path = "", .text = kLayers});
  ASSERT_TRUE(simulation.has_value());
  EXPECT_DOUBLE_EQ(simulation->step_time, 0.013);
  EXPECT_DOUBLE_EQ(simulation->tokens_per_second, 10 / 0.013);
  EXPECT_FALSE(simulation->mfu.has_value());
}

TEST(Library, SaysWhereMistakesAre) {
  const auto simulation =
      Simulate({.path = "", .text = "stepcast: 1\nmodel: 3\nmodle: 4\n", .title = "mine"});
  ASSERT_FALSE(simulation.has_value());
  ASSERT_GT(simulation.error().mistakes.size(), 1u);
  bool found = false;
  for (const Mistake& mistake : simulation.error().mistakes) {
    EXPECT_EQ(mistake.file.substr(0, 4), "mine");
    if (mistake.code != "input.unknown-key") continue;
    found = true;
    EXPECT_EQ(mistake.line, 3);
    EXPECT_EQ(mistake.column, 1);
    EXPECT_NE(mistake.message.find("modle"), std::string::npos);
    EXPECT_NE(mistake.hint, "");
  }
  EXPECT_TRUE(found);
  const auto none = Simulate({.path = "no-such.yaml"});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().mistakes.at(0).code, "file.not-found");
}

TEST(Library, SweepsAndCompares) {
  const auto sweeping =
      Sweep({.path = kDdp}, {"data_parallel.zero_stage=0,3", "training.micro_batch_size=1,4"});
  ASSERT_TRUE(sweeping.has_value());
  ASSERT_EQ(sweeping->rows.size(), 4u);
  EXPECT_EQ(sweeping->rows[1].set[1].second, "4");
  EXPECT_EQ(sweeping->rows[2].status, "illegal");  // ddp is stage 0
  EXPECT_FALSE(sweeping->rows[2].step_time.has_value());
  const auto simulation = Simulate({.path = kDdp, .set = {"training.micro_batch_size=1"}});
  ASSERT_TRUE(simulation.has_value());
  EXPECT_EQ(sweeping->rows[0].step_time, simulation->step_time);
  EXPECT_TRUE(Compare({.path = kDdp}, {.path = kDdp}).has_value());
  EXPECT_FALSE(Sweep({.path = kDdp}, {"training.micro_batch_sice=1"}).has_value());
}

// On the eight GPUs that there are, fewer data-parallel ranks leave the others idle, and a row says
// how: simulated with its settings, it is the same.
TEST(Library, SweepsOverTheDataParallelDegree) {
  const auto sweeping = Sweep(
      {.path = kDdp}, {"parallelism.data=1,2,4,8,16", "data_parallel.bucket_size=1MiB,25MiB"});
  ASSERT_TRUE(sweeping.has_value());
  ASSERT_EQ(sweeping->rows.size(), 10u);
  for (const SweepRow& row : sweeping->rows) {
    const std::string& data = row.set[0].second;
    if (data == "16") {
      EXPECT_EQ(row.status, "illegal");
      EXPECT_EQ(row.set.size(), 2u);
      continue;
    }
    ASSERT_EQ(row.status, "ok") << data;
    ASSERT_EQ(row.set.size(), data == "8" ? 2u : 3u);
    if (data != "8") {
      EXPECT_EQ(row.set[2], (std::pair<std::string, std::string>("cluster.devices", "plan")));
    }
    Input input{.path = kDdp};
    for (const auto& [key, value] : row.set) input.set.push_back(key + "=" + value);
    const auto simulation = Simulate(input);
    ASSERT_TRUE(simulation.has_value());
    EXPECT_EQ(row.step_time, simulation->step_time);
    EXPECT_EQ(row.tokens_per_second_per_gpu, simulation->tokens_per_second_per_gpu);
    const std::string idle = "\"idle_gpus\": " + std::to_string(8 - std::stoi(data)) + ",";
    EXPECT_EQ(simulation->json.find(idle) != std::string::npos, data != "8") << data;
  }
}

TEST(Library, KnowsTheLargestMicroBatch) {
  const auto memory = Memory({.path = kDdp}, true);
  ASSERT_TRUE(memory.has_value());
  ASSERT_EQ(memory->stages.size(), 4u);
  EXPECT_GT(memory->stages[0].max_micro_batch.value_or(0), 4);
  EXPECT_FALSE(memory->stages[1].simulated.has_value());  // ddp is stage 0
}

}  // namespace
}  // namespace stepcast::library
