#include <vector>

#include "gtest/gtest.h"
#include "src/forecast/what_if.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

// 40 ms forward, 80 ms backward, an all-reduce of 80 ms that nothing hides, 5 ms update.
scenario::Scenario NaiveDataParallelism() {
  scenario::InputCache cache;
  auto scenario = scenario::LoadText(R"(
stepcast: 1
model:
  kind: layers
  layers:
    - {name: block, repeat: 4, parameters: [1000000], forward: 10 ms, backward: 20 ms, activation: 1 MiB}
  optimizer_step: 5 ms
cluster:
  topology:
    {kind: flat, devices: 2, memory: 1 GiB, link: {latency: 0 us, bandwidth: 100 MB/s}}
training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
           optimizer: adamw}
data_parallel: {framework: reference, zero_stage: 0, overlap: false}
)",
                                     "test", {}, cache);
  EXPECT_TRUE(scenario.has_value());
  return *scenario;
}

std::vector<ExplainingSpeed> Explaining(Time measured) {
  const auto speeds = SpeedsThatExplain(NaiveDataParallelism(), Milliseconds(205), measured);
  EXPECT_TRUE(speeds.has_value());
  return *speeds;
}

// 80 ms more are an all-reduce at half the speed, 40 ms less one at twice the speed.
TEST(ExplainingSpeedTest, LinksAtHalfAndAtTwiceTheirSpeed) {
  const auto slower = Explaining(Milliseconds(285));
  ASSERT_EQ(slower.size(), 1U);
  EXPECT_EQ(slower[0].resource, MachineResource::kNetwork);
  EXPECT_NEAR(slower[0].speed.value(), 0.5, 0.005);
  const auto faster = Explaining(Milliseconds(165));
  ASSERT_EQ(faster.size(), 1U);
  EXPECT_NEAR(faster[0].speed.value(), 2, 0.02);
}

// At a sixteenth of the speed the all-reduce takes 1,280 ms; without any the step still takes 125
// ms.
TEST(ExplainingSpeedTest, SomeDifferencesNoSpeedExplains) {
  EXPECT_FALSE(Explaining(Milliseconds(1500)).at(0).speed.has_value());
  EXPECT_FALSE(Explaining(Milliseconds(120)).at(0).speed.has_value());
}

}  // namespace
}  // namespace stepcast::forecast
