// Bytes of model states per parameter, by the formula and as simulated peak, against the ZeRO
// paper's values for k = 12 and 64 ranks: 16, 4.1875, 2.21875, 0.25.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>

#include "src/base/data_type.h"
#include "src/forecast/forecast.h"
#include "src/forecast/memory_summary.h"
#include "tests/property/flat_scenario.h"

namespace stepcast {
namespace {

constexpr std::int64_t kRanks = 64;
constexpr std::int64_t kLayers = 10;
constexpr std::int64_t kElements = 64 * 1000;

scenario::Scenario Base(int stage, std::int64_t elements) {
  const TestLayer layer{
      .parameters = {elements}, .forward = Microseconds(10), .backward = Microseconds(20)};
  scenario::Scenario scenario = FlatScenario(ListOf(std::vector<TestLayer>(kLayers, layer), Time()),
                                             {.devices = kRanks,
                                              .latency = Nanoseconds(10),
                                              .bandwidth = Bandwidth::GigabytesPerSecond(100)});
  scenario.plan.data_parallel.zero_stage = stage;
  if (stage < 3) scenario.plan.data_parallel.bucket_size = Bytes(0);
  return scenario;
}

double StatesPerParameter(const forecast::BytesByCategory& bytes) {
  using program::Category;
  Bytes states;
  for (const Category category :
       {Category::kParameter, Category::kGradient, Category::kOptimizer}) {
    states += bytes[static_cast<std::size_t>(category)];
  }
  return static_cast<double>(states.count()) / (kLayers * kElements);
}

struct Expected {
  int stage;
  double bytes;
};

class ModelStates : public testing::TestWithParam<Expected> {};

TEST_P(ModelStates, FormulaIsTheTextbooks) {
  EXPECT_DOUBLE_EQ(StatesPerParameter(forecast::MemoryFormula(Base(GetParam().stage, kElements))),
                   GetParam().bytes);
}

// The simulated run keeps exactly that between steps. At stages 2 and 3, full gradients of buckets
// being filled or reduced are added: with 2 us to reduce a bucket and 20 us to compute the next, at
// most two.
TEST_P(ModelStates, SimulatedPeakIsTheFormulaAndWhatIsInFlight) {
  const auto run = forecast::Simulate(Base(GetParam().stage, kElements));
  ASSERT_TRUE(run.has_value());
  const double simulated = StatesPerParameter(run->forecast.memory.at_peak);
  const double one_bucket = 2.0 / kLayers;
  if (GetParam().stage < 2) {
    EXPECT_DOUBLE_EQ(simulated, GetParam().bytes);
  } else {
    EXPECT_GE(simulated, GetParam().bytes);
    EXPECT_LE(simulated, GetParam().bytes + 2 * one_bucket + 1e-12);
  }
  EXPECT_EQ(run->forecast.memory.padding, Bytes(0));
}

INSTANTIATE_TEST_SUITE_P(Stages, ModelStates,
                         testing::Values(Expected{0, 16}, Expected{1, 4.1875}, Expected{2, 2.21875},
                                         Expected{3, 0.25}));

Bytes StatesAtPeak(const scenario::Scenario& scenario) {
  const auto run = forecast::Simulate(scenario);
  RC_ASSERT(run.has_value());
  using program::Category;
  const forecast::BytesByCategory& bytes = run->forecast.memory.at_peak;
  Bytes states;
  for (const Category category : {Category::kParameter, Category::kGradient, Category::kOptimizer,
                                  Category::kCommunication}) {
    states += bytes[static_cast<std::size_t>(category)];
  }
  return states;
}

// Without overlap, all gradients of a single micro-batch exist before the first is reduced. With
// several micro-batches, stages that keep no gradients reduce bucket by bucket. A stage must not
// keep sharded data twice, so no stage needs more than the previous one. Layers divide among the
// ranks. Their number is such that stage 3 gathers less at a time than it shards: three of eight,
// and a quarter of all.
RC_GTEST_PROP(ModelStatesWithoutOverlap, NoStageNeedsMoreThanTheOneBefore, ()) {
  const auto ranks = *rc::gen::inRange<std::int64_t>(4, 17);
  const TestLayer layer{.parameters = {ranks * *rc::gen::inRange<std::int64_t>(1, 2000)},
                        .forward = Microseconds(*rc::gen::inRange<std::int64_t>(1, 50)),
                        .backward = Microseconds(*rc::gen::inRange<std::int64_t>(1, 50))};
  const auto layers = static_cast<std::size_t>(*rc::gen::inRange(8, 13));
  scenario::Scenario scenario =
      FlatScenario(ListOf(std::vector<TestLayer>(layers, layer), Time()),
                   {.devices = static_cast<int>(ranks),
                    .latency = Nanoseconds(*rc::gen::inRange<std::int64_t>(0, 20'000)),
                    .bandwidth = Bandwidth::GigabytesPerSecond(1)});
  scenario.plan.data_parallel.overlap = false;
  scenario.plan.training.gradient_dtype = *rc::gen::element(DataType::kBf16, DataType::kFp32);
  scenario.plan.training.gradient_accumulation = *rc::gen::inRange(1, 4);
  if (scenario.plan.training.gradient_accumulation > 1) {
    scenario.plan.data_parallel.bucket_size = BytesOf(layer.parameters.front(), DataType::kBf16);
    scenario.plan.data_parallel.first_bucket_size = scenario.plan.data_parallel.bucket_size;
  }
  Bytes before;
  for (int stage = 0; stage <= 3; ++stage) {
    scenario.plan.data_parallel.zero_stage = stage;
    const Bytes states = StatesAtPeak(scenario);
    if (stage > 0) RC_ASSERT(states <= before);
    before = states;
  }
}

// Without master weights and with moments in the parameters' type, 4 of the 12 bytes remain; with
// remainders and bf16 moments 6; with FP32 moments and remainders 10.
TEST(ModelStates, FollowMasterWeightsAndMoments) {
  struct States {
    plan::MasterWeights master_weights;
    DataType type;
    double bytes;
  };
  using plan::MasterWeights;
  for (const States& states : {States{MasterWeights::kNone, DataType::kBf16, 4},
                               States{MasterWeights::kNone, DataType::kFp32, 8},
                               States{MasterWeights::kFp16Remainder, DataType::kBf16, 6},
                               States{MasterWeights::kFp16Remainder, DataType::kFp32, 10},
                               States{MasterWeights::kFp32, DataType::kBf16, 8}}) {
    for (const int stage : {0, 1}) {
      scenario::Scenario scenario = Base(stage, kElements);
      scenario.plan.training.master_weights = states.master_weights;
      scenario.plan.training.optimizer_state_dtype = states.type;
      const double expected = 4 + states.bytes / (stage == 0 ? 1 : kRanks);
      EXPECT_DOUBLE_EQ(StatesPerParameter(forecast::MemoryFormula(scenario)), expected);
      const auto run = forecast::Simulate(scenario);
      ASSERT_TRUE(run.has_value());
      EXPECT_DOUBLE_EQ(StatesPerParameter(run->forecast.memory.at_peak), expected);
    }
  }
}

// FP32 accumulators in addition to bf16 gradients: 4 bytes more, sharded from stage 2 on.
TEST(ModelStatesWithFp32Accumulation, AddFourBytes) {
  const auto formula = [](int stage) {
    scenario::Scenario scenario = Base(stage, kElements);
    scenario.plan.training.gradient_dtype = DataType::kFp32;
    return StatesPerParameter(forecast::MemoryFormula(scenario));
  };
  EXPECT_DOUBLE_EQ(formula(0), 20);
  EXPECT_DOUBLE_EQ(formula(1), 8.1875);
  EXPECT_DOUBLE_EQ(formula(2), 2.21875 + 4.0 / kRanks);
  EXPECT_DOUBLE_EQ(formula(3), 0.25 + 4.0 / kRanks);
}

TEST(ModelStatesWithFp32Accumulation, SimulatedStatesAgree) {
  scenario::Scenario scenario = Base(0, kElements);
  scenario.plan.training.gradient_dtype = DataType::kFp32;
  const auto run = forecast::Simulate(scenario);
  ASSERT_TRUE(run.has_value());
  EXPECT_DOUBLE_EQ(StatesPerParameter(run->forecast.memory.at_peak), 20);
}

// One element more than is divisible: each bucket's shard is rounded up on all ranks. Stage 1 pads
// the 16-bit parameters and gradients of a bucket by 63 elements (2 + 2 bytes each). It pads the
// optimizer shard (64001 / 64 rounded up: 1001) by its excess over the exact share (12 x 1001 -
// floor(12 x 64001 / 64) = 12012 - 12000).
TEST(ModelStates, PaddingIsReported) {
  const auto run = forecast::Simulate(Base(1, kElements + 1));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->forecast.memory.padding, Bytes(kLayers * (63 * 4 + 12)));
}

// DeepSpeed without overlap: the textbook's states (k = 12, N = 64) and its working memory at the
// peak. A bucket holds the gradients of one of ten layers, 0.2 bytes per parameter.
//   stage 0: gradients, flattened and in FP32 at once: 2 + 2 + 4
//   stage 1: all gradients when the first is in the bucket (2 - 0.2 + 0.2); tensors that reach into
//            a rank's part are kept whole: two layers, as parts are 5/32 of one
//   stage 2: two layers kept, and in the step one of them in FP64 for its norm: 2 + 4; more than a
//            waiting gradient, the full bucket, its copy in owners' order and the two kept
//   stage 3: gradients always have their flat buffer; in addition the bucket, one layer's
//            parameters and its gradient
TEST(DeepSpeedStates, AreTheTextbooksAndItsBuffers) {
  const auto peak = [](int stage) {
    scenario::Scenario scenario = Base(stage, kElements);
    scenario.plan.data_parallel.framework = plan::Framework::kDeepSpeed;
    scenario.plan.data_parallel.overlap = false;
    plan::DeepSpeed& deepspeed = scenario.plan.data_parallel.deepspeed;
    deepspeed.reduce_bucket_size = kElements;
    deepspeed.param_persistence_threshold = 0;
    deepspeed.prefetch_bucket_size = 0;
    deepspeed.max_reuse_distance = 0;
    const auto run = forecast::Simulate(scenario);
    EXPECT_TRUE(run.has_value());
    return static_cast<double>(run->forecast.memory.peak.count()) / (kLayers * kElements);
  };
  constexpr double kLayer = 2.0 / kLayers;
  EXPECT_NEAR(peak(0), 2 + 12 + 2 + 2 + 4, 1e-4);
  EXPECT_NEAR(peak(1), 2 + 12.0 / kRanks + 2 + 2 * kLayer, 1e-4);
  EXPECT_NEAR(peak(2), 2 + 12.0 / kRanks + 6 * kLayer, 1e-4);
  EXPECT_NEAR(peak(3), 16.0 / kRanks + 3 * kLayer, 1e-4);
}

}  // namespace
}  // namespace stepcast
