#include "src/study/measured_step.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/forecast/forecast.h"
#include "src/scenario/load.h"

namespace stepcast::study {
namespace {

constexpr const char* kScenario = "scenarios/gpt2-ddp/scenario.yaml";

Time StepWith(const std::vector<std::string>& set, scenario::InputCache& cache) {
  const auto scenario = scenario::Load(kScenario, set, cache);
  EXPECT_TRUE(scenario.has_value());
  return scenario ? forecast::FiguresOf(*scenario)->step_time : Time();
}

report::MeasuredStep Explained(Time measured, scenario::InputCache& cache) {
  const auto scenario = scenario::Load(kScenario, {}, cache);
  const auto forecast = forecast::FiguresOf(*scenario);
  auto step = ExplainMeasured(kScenario, {}, *scenario, *forecast, measured, cache);
  EXPECT_TRUE(step.has_value());
  return *step;
}

// Of a step that was made slow by one of the settings that are tried, that one explains it best.
TEST(MeasuredStepTest, NamesTheSettingThatMadeAStepSlow) {
  scenario::InputCache cache;
  for (const std::string setting :
       {"training.attention=math", "training.activation_checkpointing=full",
        "training.optimizer_implementation=single", "training.activation_function=huggingface",
        "software.torch=2.0", "data_parallel.bucket_size=1 MiB",
        "cluster.slow_devices=[{device: node0/gpu0, speed: 0.8}]"}) {
    const report::MeasuredStep step = Explained(StepWith({setting}, cache), cache);
    ASSERT_FALSE(step.settings.empty()) << setting;
    EXPECT_EQ(step.settings[0].set, std::vector<std::string>{setting});
    EXPECT_DOUBLE_EQ(step.settings[0].explains, 1) << setting;
  }
}

TEST(MeasuredStepTest, SaysWhetherAStepIsInTheRange) {
  scenario::InputCache cache;
  const Time own = StepWith({}, cache);
  EXPECT_EQ(Explained(own, cache).in_range, true);
  EXPECT_TRUE(Explained(own, cache).settings.empty());
  EXPECT_EQ(Explained(own + own, cache).in_range, false);
  // A slower resource can explain only a longer step.
  EXPECT_FALSE(Explained(own + own, cache).resources.empty());
  EXPECT_TRUE(Explained(Picoseconds(own.picoseconds() / 2), cache).resources.empty());
}

}  // namespace
}  // namespace stepcast::study
