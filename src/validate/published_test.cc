#include "src/validate/published.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace stepcast::validate {
namespace {

namespace fs = std::filesystem;

// A data root with only published steps. Layers have given times, and the only device of a flat
// cluster waits for no other. A step takes micro-batches x (forward + backward) + update: 40 ms for
// one micro-batch of the list below.
class Published : public testing::Test {
 protected:
  Published() : root_(fs::path(testing::TempDir()) / "published_test") {
    fs::remove_all(root_);
    fs::create_directories(root_ / "calibration" / "published");
    ::setenv("STEPCAST_DATA", root_.c_str(), 1);
  }
  ~Published() override {
    ::unsetenv("STEPCAST_DATA");
    fs::remove_all(root_);
  }

  void Write(const std::string& name, const std::string& cases,
             const std::string& times = {}) const {
    std::ofstream(root_ / "calibration" / "published" / (name + ".yaml"))
        << "name: " << name << "\n"
        << (times.empty() ? "" : "times: " + times + "\n") << R"(source: nowhere
machine: one device
rule: by hand
aims: {step_time: 0.1}
scenario:
  stepcast: 1
  model:
    kind: layers
    layers: [{name: block, parameters: [1000], forward: 10 ms, backward: 20 ms, activation: 1 MiB}]
    optimizer_step: 10 ms
  cluster: {topology: {kind: flat, devices: 1, memory: 1 GiB}}
  calibration: {name: none, provenance: {how: by hand}}
  training: {sequence_length: 8, micro_batch_size: 1, gradient_accumulation: 1, precision: bf16,
    optimizer: sgd}
  data_parallel: {zero_stage: 0, framework: reference}
parts:
  axis: {scenario: {parallelism: {expert: 2}}}
  experts: {not_simulated: experts}
  other: {stand_in: reference for something else}
cases:
)" << cases;
  }

 private:
  fs::path root_;
};

// Forecasts of 40 and 70 ms against 50 and 70: errors of -20 % and 0.
TEST_F(Published, ComparesStepTimesAndKeepsSplitsApart) {
  Write("a",
        "  - {name: one, split: check, quality: A, parts: [other], step_time: 50 ms}\n"
        "  - {name: two, split: check, quality: B, gradient_accumulation: 2, step_time: 70 ms}\n"
        "  - {name: three, split: fit, quality: A, step_time: 40 ms}\n");
  const auto accuracy = ComparePublished("");
  ASSERT_TRUE(accuracy.has_value()) << Format(accuracy.error());
  ASSERT_EQ(accuracy->outcomes.size(), 3u);
  EXPECT_EQ(accuracy->outcomes[0].forecast, Milliseconds(40));
  EXPECT_EQ(accuracy->outcomes[1].forecast, Milliseconds(70));
  const Selection check = {.source = 0, .split = scenario::Split::kCheck, .quality = {}};
  const AccuracyFigures figures = accuracy->StepTime(check);
  EXPECT_EQ(figures.cases, 2u);
  EXPECT_NEAR(figures.mean, 0.1, 1e-12);
  EXPECT_NEAR(figures.bias, -0.1, 1e-12);
  EXPECT_EQ(accuracy->StepTime({.source = {}, .split = {}, .quality = scenario::Quality::kA}).cases,
            2u);
  // Layers with given times have no FLOPs, so the baseline has no MFU.
  EXPECT_EQ(accuracy->RivalStepTime(check, false).cases, 0u);
  EXPECT_FALSE(accuracy->MeetsAims()) << "a bias of 10 %";
}

// Times predicted by another simulator are shown with their source and count nowhere else.
TEST_F(Published, PredictedTimesCountWithTheirSourceAlone) {
  const std::string rows =
      "  - {name: one, split: check, quality: A, step_time: 50 ms}\n"
      "  - {name: two, split: fit, quality: A, step_time: 50 ms}\n";
  Write("a", rows);
  Write("b", rows, "predicted");
  const auto accuracy = ComparePublished("");
  ASSERT_TRUE(accuracy.has_value()) << Format(accuracy.error());
  ASSERT_EQ(accuracy->outcomes.size(), 4u);
  EXPECT_EQ(accuracy->StepTime({}).cases, 2u);
  EXPECT_EQ(accuracy->StepTime({.source = 1}).cases, 2u);
  EXPECT_EQ(accuracy->StepTimeTransfer({}).cases, 1u);
  const std::vector<FitResidual> residuals = accuracy->FitResiduals();
  ASSERT_EQ(residuals.size(), 1u);
  EXPECT_EQ(residuals[0].cases, 1u);
}

TEST_F(Published, ListsWhatIsNotSimulatedWithItsReason) {
  Write("a",
        "  - {name: one, split: check, quality: A, parts: [axis], step_time: 50 ms}\n"
        "  - {name: two, split: check, quality: A, parts: [experts], step_time: 50 ms}\n");
  const auto accuracy = ComparePublished("");
  ASSERT_TRUE(accuracy.has_value()) << Format(accuracy.error());
  ASSERT_EQ(accuracy->outcomes.size(), 2u);
  EXPECT_FALSE(accuracy->outcomes[0].simulated());
  EXPECT_NE(accuracy->outcomes[0].reason.find(
                "expert parallelism is not modelled with framework reference"),
            std::string::npos);
  EXPECT_EQ(accuracy->outcomes[1].reason, "experts");
  EXPECT_EQ(accuracy->StepTime({}).cases, 0u);
}

// Textbook memory: 1000 bf16 parameters and gradients, fp32 master weights and momentum (12 bytes
// per parameter), and 1 MiB of activations.
TEST_F(Published, ComparesMemoryAndNotesWhatDoesNotFit) {
  Write("a",
        "  - {name: one, split: check, quality: A, allocated: 1 MiB}\n"
        "  - {name: two, split: check, quality: A, allocated: 1 MiB,\n"
        "     scenario: {cluster: {topology: {memory: 1 MiB}}}}\n");
  const auto accuracy = ComparePublished("");
  ASSERT_TRUE(accuracy.has_value()) << Format(accuracy.error());
  ASSERT_EQ(accuracy->outcomes[0].memory.size(), 1u);
  EXPECT_EQ(accuracy->outcomes[0].memory[0].forecast, MiB(1) + Bytes(12'000));
  EXPECT_EQ(accuracy->outcomes[0].over, Bytes(0));
  EXPECT_EQ(accuracy->outcomes[1].over, Bytes(12'000));
  EXPECT_EQ(accuracy->Memory({}).cases, 2u);
}

// Four peaks that just fit where the forecast fits with probabilities of 0.2, 0.55, 0.6 and 0.95,
// tried at each hundredth. From 0.505 to 0.695 the first fits at all 20, the second from 0.555 on
// at 15, and the third from 0.605 on at 10: 45 of 80. From 0.905 on all fit, except the last at 5
// of 10.
TEST(FitCalibrations, CountDevicesAtEachHundredth) {
  PublishedAccuracy accuracy;
  scenario::PublishedSource source;
  scenario::PublishedCase row;
  row.split = scenario::Split::kCheck;
  source.cases = {row, row};
  source.cases[1].split = scenario::Split::kFit;
  accuracy.sources = {source};
  PublishedOutcome outcome;
  for (const double just_fits : {0.2, 0.55, 0.6, 0.95}) {
    outcome.memory.push_back({scenario::MemoryKind::kReserved, Bytes(1), Bytes(1), {}, just_fits});
  }
  accuracy.outcomes = {outcome, outcome};
  accuracy.outcomes[1].index = 1;
  const std::vector<FitCalibration> bins = accuracy.FitCalibrations();
  ASSERT_EQ(bins.size(), 3U);
  EXPECT_EQ(bins[0].peaks, 4U);
  EXPECT_EQ(bins[0].cases, 80U);
  EXPECT_EQ(bins[0].fitting, 45U);
  EXPECT_DOUBLE_EQ(bins[0].mean_probability, 0.6);
  EXPECT_DOUBLE_EQ(bins[0].fitted(), 0.5625);
  EXPECT_EQ(bins[1].fitting, 60U);
  EXPECT_EQ(bins[2].cases, 40U);
  EXPECT_EQ(bins[2].fitting, 35U);
  EXPECT_TRUE(PublishedAccuracy().FitCalibrations().empty());
}

// The same model and device with 1 and 2 micro-batches. The forecast time per token is 40 ms with
// one and 35 with two; measured are 30 and 33. The second is chosen, and the first is better by a
// tenth.
TEST_F(Published, FindsTheRegretOfThePlanThatIsForecastToBeTheFastest) {
  Write("a",
        "  - {name: one, split: check, quality: A, step_time: 30 ms}\n"
        "  - {name: two, split: check, quality: A, gradient_accumulation: 2, step_time: 66 ms}\n");
  const auto accuracy = ComparePublished("a");
  ASSERT_TRUE(accuracy.has_value()) << Format(accuracy.error());
  const auto choices = accuracy->Choices();
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].chosen, 1u);
  EXPECT_EQ(choices[0].best, 0u);
  EXPECT_NEAR(choices[0].regret, 0.1, 1e-12);
}

TEST_F(Published, ReportsMistakesOfFilesAndUnknownSources) {
  Write("a",
        "  - {name: one, split: check, quality: A, step_time: 50 ms,\n"
        "     scenario: {training: {optimizer: adam}}}\n");
  const auto mistaken = ComparePublished("");
  ASSERT_FALSE(mistaken.has_value());
  EXPECT_EQ(mistaken.error()[0].code, "input.unknown-word");
  EXPECT_EQ(mistaken.error()[0].location.line, 23);

  const auto unknown = ComparePublished("b");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error()[0].code, "command.no-source");
  EXPECT_EQ(unknown.error()[0].hint, "choose from a");
}

// Every source is judged by the others, with equal weights. The two that are 10 and 20 % off do not
// cover one that is 50 % off, but that one covers them.
TEST_F(Published, RangesOfASourceFollowFromTheOtherSources) {
  Write("a",
        "  - {name: a1, split: check, quality: A, step_time: 44 ms}\n"
        "  - {name: a2, split: check, quality: A, step_time: 44 ms}\n"
        "  - {name: a3, split: fit, quality: A, step_time: 400 ms}\n");
  Write("b", "  - {name: b1, split: check, quality: A, step_time: 32 ms}\n");
  Write("c", "  - {name: c1, split: check, quality: A, step_time: 60 ms}\n");
  const auto accuracy = ComparePublished("");
  ASSERT_TRUE(accuracy.has_value()) << Format(accuracy.error());
  const TransferError all = accuracy->StepTimeTransfer({});
  EXPECT_EQ(all.sources, 3u);
  EXPECT_EQ(all.cases, 4u);
  EXPECT_EQ(all.inside, 3u);
  EXPECT_NEAR(all.half_width, 0.5, 1e-9);
  EXPECT_NEAR(all.residual * 1.4826 * 1.6449, 0.5, 1e-9);
  EXPECT_EQ(accuracy->StepTimeTransfer({.least_devices = 2}).cases, 0u);
  EXPECT_EQ(accuracy->MemoryTransfer({}).sources, 0u);
}

TEST(AccuracyFigures, OfNothingAreZero) {
  const AccuracyFigures figures = FiguresOf({});
  EXPECT_EQ(figures.cases, 0u);
  EXPECT_EQ(figures.mean, 0);
  EXPECT_FALSE(figures.rank_correlation.has_value());
}

// Errors +10 %, -20 %, +30 %, 0: mean absolute 15 %, bias 5 %. Sorted 0, 10, 20, 30: the second is
// the median and the fourth (ceil of 3.6) the 90th percentile.
TEST(AccuracyFigures, CountErrorsInPartsOfWhatWasMeasured) {
  const AccuracyFigures figures = FiguresOf({{1, 1.1}, {10, 8}, {100, 130}, {1000, 1000}});
  EXPECT_EQ(figures.cases, 4u);
  EXPECT_NEAR(figures.mean, 0.15, 1e-12);
  EXPECT_NEAR(figures.bias, 0.05, 1e-12);
  EXPECT_NEAR(figures.median, 0.10, 1e-12);
  EXPECT_NEAR(figures.p90, 0.30, 1e-12);
  EXPECT_NEAR(figures.rank_correlation.value(), 1, 1e-12);
}

// Ranks 1 2 3 4 against 1 3 2 4: differences 0 1 1 0, so 1 - 6 x 2 / (4 x 15) = 0.8.
TEST(AccuracyFigures, CompareOrders) {
  EXPECT_NEAR(FiguresOf({{1, 10}, {2, 30}, {3, 20}, {4, 40}}).rank_correlation.value(), 0.8, 1e-12);
  EXPECT_NEAR(FiguresOf({{1, 3}, {2, 2}, {3, 1}}).rank_correlation.value(), -1, 1e-12);
}

// Measured ranks 1, 2.5, 2.5, 4; forecast 1 2 3 4. Deviations from 2.5: (-1.5, 0, 0, 1.5) and
// (-1.5, -0.5, 0.5, 1.5): 4.5 / sqrt(4.5 x 5).
TEST(AccuracyFigures, EqualValuesShareTheirRank) {
  EXPECT_NEAR(FiguresOf({{1, 1}, {2, 2}, {2, 3}, {4, 4}}).rank_correlation.value(),
              0.9486832980505138, 1e-12);
  EXPECT_FALSE(FiguresOf({{2, 1}, {2, 2}, {2, 3}}).rank_correlation.has_value());
}

}  // namespace

}  // namespace stepcast::validate
