#include "src/forecast/padded_lengths.h"

#include <cmath>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/forecast/forecast.h"
#include "src/lowering/lowering.h"
#include "src/scenario/load.h"

namespace stepcast::forecast {
namespace {

constexpr const char* kScenario = R"(
stepcast: 1
model: models/gpt2.yaml
cluster: {topology: topologies/dgx-a100.yaml, nodes: 1}
training: {sequence_length: 1024, micro_batch_size: 2, gradient_accumulation: 2, precision: bf16,
           optimizer: adamw}
data_parallel: {zero_stage: 3, framework: fsdp2}
)";

scenario::InputCache& Cache() {
  static scenario::InputCache cache;
  return cache;
}

scenario::Scenario Load(const std::vector<std::string>& set) {
  auto scenario = scenario::LoadText(kScenario, "lengths.yaml", set, Cache());
  EXPECT_TRUE(scenario.has_value()) << (scenario ? "" : scenario.error().front().message);
  return *std::move(scenario);
}

Forecast Of(const std::vector<std::string>& set) {
  auto forecast = Forecaster().Evaluate(Load(set));
  EXPECT_TRUE(forecast.has_value());
  return *std::move(forecast);
}

Forecast With(std::vector<std::string> set, const std::string& more) {
  set.push_back(more);
  return Of(set);
}

std::string Lengths(const char* batching, const char* histogram) {
  return fmt::format("training.lengths={{batching: {}, histogram: {}}}", batching, histogram);
}

const std::vector<std::string> kDdp = {"data_parallel.framework=ddp", "data_parallel.zero_stage=0"};

double Seconds(const std::vector<std::string>& set, int tokens) {
  return With(set, fmt::format("training.sequence_length={}", tokens)).step_time.seconds();
}

// Eight ranks have 2 samples each. All 16 have 256 tokens with probability (3/4)^16. Shards are
// gathered in each micro-batch, so all ranks wait for the longest.
TEST(PaddedLengthsTest, RanksThatGatherShardsWaitInEachMicroBatch) {
  const Forecast mixed = Of({Lengths("padded", "[[256, 3], [1024, 1]]")});
  const double all_short = std::pow(0.75, 16);
  const double expected = all_short * Seconds({}, 256) + (1 - all_short) * Seconds({}, 1024);
  EXPECT_NEAR(mixed.step_time.seconds(), expected, 1e-11);
  ASSERT_TRUE(mixed.lengths.has_value());
  EXPECT_TRUE(mixed.lengths->wait_in_micro_batches);
  // Samples have (3 x 256 + 1024) / 4 = 448 tokens on average; a rank's micro-batches have 256 with
  // probability (3/4)^2.
  EXPECT_DOUBLE_EQ(mixed.lengths->sample_tokens, 448);
  EXPECT_NEAR(mixed.lengths->padded_tokens, 1024 - 768 * 0.5625, 1e-9);
  EXPECT_NEAR(mixed.lengths->padding(), 1 - 448 / 592.0, 1e-12);
  EXPECT_NEAR(mixed.lengths->slowest_tokens, 1024 - 768 * all_short, 1e-9);
  EXPECT_NEAR(mixed.tokens_per_second, 32 * 448 / expected, 1e-6 * mixed.tokens_per_second);
}

// Without shards, ranks meet when the step's gradients are reduced. Each of a rank's two
// micro-batches is short with probability 9/16. None is long with 81/256, one with 126/256 and both
// with 49/256.
TEST(PaddedLengthsTest, RanksThatAccumulateWaitAtTheEndOfAStep) {
  const Forecast mixed = With(kDdp, Lengths("padded", "[[256, 3], [1024, 1]]"));
  ASSERT_TRUE(mixed.lengths.has_value());
  EXPECT_FALSE(mixed.lengths->wait_in_micro_batches);
  const double none = 81 / 256.0, one = 126 / 256.0;
  const double short_step = Seconds(kDdp, 256), long_step = Seconds(kDdp, 1024);
  const double at_most_none = std::pow(none, 8), at_most_one = std::pow(none + one, 8);
  const double expected = at_most_none * short_step +
                          (at_most_one - at_most_none) * (short_step + long_step) / 2 +
                          (1 - at_most_one) * long_step;
  EXPECT_NEAR(mixed.step_time.seconds(), expected, 1e-11);
  const double mean = 9 / 16.0 * short_step + 7 / 16.0 * long_step;
  auto run = Simulate(Load({kDdp[0], kDdp[1], Lengths("padded", "[[256, 3], [1024, 1]]")}));
  ASSERT_TRUE(run.has_value());
  EXPECT_NEAR(run->forecast.time.imbalance.seconds(), expected - mean, 2e-11);
}

TEST(PaddedLengthsTest, AStepOfOneMicroBatchWaitsInIt) {
  std::vector<std::string> set = kDdp;
  set.emplace_back("training.gradient_accumulation=1");
  const Forecast mixed = With(set, Lengths("padded", "[[256, 3], [1024, 1]]"));
  EXPECT_TRUE(mixed.lengths->wait_in_micro_batches);
  const double all_short = std::pow(0.75, 16);
  EXPECT_NEAR(mixed.step_time.seconds(),
              all_short * Seconds(set, 256) + (1 - all_short) * Seconds(set, 1024), 1e-11);
}

TEST(PaddedLengthsTest, ByLengthNothingIsPaddedAndNobodyWaits) {
  const Forecast mixed = Of({Lengths("by_length", "[[256, 3], [1024, 1]]")});
  EXPECT_NEAR(mixed.step_time.seconds(), 0.75 * Seconds({}, 256) + 0.25 * Seconds({}, 1024), 1e-11);
  EXPECT_NEAR(mixed.lengths->padding(), 0, 1e-12);
  EXPECT_EQ(mixed.memory.peak, Of({}).memory.peak);  // of the longest
}

TEST(PaddedLengthsTest, TheSumOfPartsIsTheStep) {
  for (const char* batching : {"padded", "by_length"}) {
    auto run = Simulate(Load({Lengths(batching, "[[256, 3], [512, 2], [1024, 1]]")}));
    ASSERT_TRUE(run.has_value());
    const TimeBreakdown& time = run->forecast.time;
    Time sum = time.exposed_communication + time.imbalance + time.pipeline_bubble + time.idle +
               time.allocator_flushes + time.learned;
    for (const Time phase : time.phase) sum += phase;
    EXPECT_EQ(sum, run->forecast.step_time);
    EXPECT_EQ(run->forecast.step_time,
              Of({Lengths(batching, "[[256, 3], [512, 2], [1024, 1]]")}).step_time);
    EXPECT_LT(run->forecast.step_time_range->low, run->forecast.step_time);
  }
}

TEST(PaddedLengthsTest, WhatLooksAtOneStepSaysThatItCannot) {
  const auto classes = PricedClassesOf(Load({Lengths("padded", "[[256, 3], [1024, 1]]")}));
  ASSERT_FALSE(classes.has_value());
  EXPECT_EQ(classes.error().front().code, "forecast.several-lengths");
}

std::vector<std::string> AnyPlan() {
  const auto one_of = [](const std::vector<std::string>& values) {
    return *rc::gen::elementOf(values);
  };
  std::vector<std::string> set;
  if (*rc::gen::arbitrary<bool>()) set = kDdp;
  set.push_back(one_of({"training.micro_batch_size=1", "training.micro_batch_size=3"}));
  set.push_back(one_of({"training.gradient_accumulation=1", "training.gradient_accumulation=3"}));
  set.push_back(
      one_of({"training.activation_checkpointing=none", "training.activation_checkpointing=full"}));
  set.push_back(one_of({"training.sequence_length=256", "training.sequence_length=1000"}));
  return set;
}

// Equal to the picosecond and the byte, and with the same rates.
RC_GTEST_PROP(PaddedLengthsTest, OneLengthIsTheScenarioOfThatLength, ()) {
  const std::vector<std::string> set = AnyPlan();
  const std::string tokens = set.back().substr(set.back().find('=') + 1);
  const char* batching = *rc::gen::elementOf(std::vector<const char*>{"padded", "by_length"});
  const Forecast plain = Of(set);
  const Forecast alike = With(set, Lengths(batching, fmt::format("[[{}, 0.3]]", tokens).c_str()));
  RC_ASSERT(alike.step_time == plain.step_time);
  RC_ASSERT(alike.memory.peak == plain.memory.peak);
  RC_ASSERT(alike.memory.reserved == plain.memory.reserved);
  RC_ASSERT(std::abs(alike.tokens_per_second - plain.tokens_per_second) <
            1e-9 * plain.tokens_per_second);
  RC_ASSERT(std::abs(alike.mfu - plain.mfu) < 1e-9 * plain.mfu);
  RC_ASSERT(std::abs(alike.hfu - plain.hfu) < 1e-9 * plain.hfu);
}

RC_GTEST_PROP(PaddedLengthsTest, PackedWithOneLengthIsItsDocumentLength, ()) {
  std::vector<std::string> set = AnyPlan();
  set.back() = "training.sequence_length=1024";
  const char* tokens = *rc::gen::elementOf(std::vector<const char*>{"64", "256", "1024"});
  const Forecast documents = With(set, fmt::format("training.document_length={}", tokens));
  const Forecast packed = With(set, Lengths("packed", fmt::format("[[{}, 7]]", tokens).c_str()));
  RC_ASSERT(packed.step_time == documents.step_time);
  RC_ASSERT(packed.memory.peak == documents.memory.peak);
  RC_ASSERT(packed.mfu == documents.mfu);
}

// Longer samples take longer, and so does waiting for more ranks.
RC_GTEST_PROP(PaddedLengthsTest, PaddedStepsLieBetweenByLengthAndTheLongest, ()) {
  const std::vector<std::string> set = [] {
    std::vector<std::string> plan = AnyPlan();
    plan.back() = "training.sequence_length=1024";
    return plan;
  }();
  const int weight = *rc::gen::inRange(1, 100);
  const std::string histogram = fmt::format("[[128, {}], [512, 20], [1024, 5]]", weight);
  const Forecast padded = With(set, Lengths("padded", histogram.c_str()));
  RC_ASSERT(padded.step_time <= Of(set).step_time);
  RC_ASSERT(padded.step_time >= With(set, Lengths("by_length", histogram.c_str())).step_time);
}

}  // namespace
}  // namespace stepcast::forecast
