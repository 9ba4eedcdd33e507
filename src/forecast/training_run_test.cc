#include "src/forecast/training_run.h"

#include "gtest/gtest.h"
#include "src/base/time.h"

namespace stepcast::forecast {
namespace {

// 10^6 tokens in steps of 3,000 are 334 steps, the last one partial: 668 s at 2 s each.
TEST(TrainingRunTest, TakesWholeSteps) {
  TrainingTarget target;
  target.tokens = 1e6;
  EXPECT_DOUBLE_EQ(TrainingSeconds(target, {Seconds(2), 3000, 8}), 668);
}

// With GPUs that train for 80 % of the time, the same steps take 835 s on 8 GPUs: 1.8556 GPU hours,
// which cost 16.7 at 9 each.
TEST(TrainingRunTest, GpusArePaidWhileTheyDoNotTrain) {
  TrainingTarget target;
  target.tokens = 1e6;
  target.gpu_hour_price = 9;
  target.availability = 0.8;
  const TrainedStep step{Seconds(2), 3000, 8};
  EXPECT_DOUBLE_EQ(TrainingSeconds(target, step), 835);
  EXPECT_DOUBLE_EQ(GpuHours(target, step), 835 * 8 / 3600.0);
  EXPECT_DOUBLE_EQ(MoneyOfTraining(target, step), 16.7);
  // Excludes the surplus tokens of the last step: 2 s x 8 / 3,000 / 0.8 for each token.
  EXPECT_DOUBLE_EQ(MoneyOfMillionTokens(target, step), 1e6 * 2 * 8 / 3000 / 0.8 / 3600 * 9);
}

TEST(TrainingRunTest, ADeadlineIsMetToTheSecond) {
  TrainingTarget target;
  target.tokens = 1e6;
  const TrainedStep step{Seconds(2), 3000, 8};
  EXPECT_TRUE(MeetsDeadline(target, step));
  target.deadline = 668;
  EXPECT_TRUE(MeetsDeadline(target, step));
  target.availability = 0.99;
  EXPECT_FALSE(MeetsDeadline(target, step));
}

TEST(TrainingRunTest, EffectiveTimeDependsOnGpusUnlessAvailabilityIsGiven) {
  TrainingTarget target;
  target.tokens = 1000;
  target.effective = [](std::int64_t gpus) { return gpus > 8 ? UsedTime{0.5, 0.75} : UsedTime(); };
  const TrainedStep few{.time = Seconds(1), .tokens = 10, .gpus = 8};
  const TrainedStep many{.time = Seconds(1), .tokens = 10, .gpus = 16};
  EXPECT_DOUBLE_EQ(TrainingSeconds(target, few), 100);
  EXPECT_DOUBLE_EQ(TrainingSeconds(target, many), 200);
  target.availability = 0.8;
  EXPECT_DOUBLE_EQ(TrainingSeconds(target, many), 125);
}

// 200 s on 16 GPUs, which draw 500 W in steps for 150 s and 100 W for 50 s: 1.28 MJ.
TEST(TrainingRunTest, RepeatedStepsDrawAsMuchAsKeptOnes) {
  TrainingTarget target;
  target.tokens = 1000;
  target.pue = 1.5;
  target.effective = [](std::int64_t) { return UsedTime{0.5, 0.75}; };
  const TrainedStep step{Seconds(1), 10, 16, 500, 100};
  EXPECT_DOUBLE_EQ(EnergyOfTraining(target, step), 1.5 * 1.28e6);
}

}  // namespace
}  // namespace stepcast::forecast
