#include "src/validate/stored_outcomes.h"

#include <string>

#include "gtest/gtest.h"
#include "src/validate/published.h"

namespace stepcast::validate {
namespace {

// A sample of small sources, so that a change of forecasts without new stored outcomes is found.
// tools/release compares all sources.
class StoredOutcomes : public testing::TestWithParam<const char*> {};

TEST_P(StoredOutcomes, AreThoseOfTheForecastsOfToday) {
  const auto stored = ReadStoredOutcomes(GetParam());
  ASSERT_TRUE(stored.has_value()) << stored.error().front().message;
  const auto run = ComparePublished(GetParam());
  ASSERT_TRUE(run.has_value()) << run.error().front().message;
  ASSERT_FALSE(run->outcomes.empty());
  EXPECT_EQ(StoredOutcomesText(*stored), StoredOutcomesText(*run))
      << "store the results again: stepcast validate published --store "
      << "calibration/published/outcomes.csv";
}

INSTANTIATE_TEST_SUITE_P(Sample, StoredOutcomes,
                         testing::Values("flash-attention", "nanotron", "zero-bubble"));

TEST(StoredOutcomes, NamesASourceThatDoesNotExist) {
  const auto stored = ReadStoredOutcomes("no-such-source");
  ASSERT_FALSE(stored.has_value());
  EXPECT_EQ(stored.error().front().code, "command.no-source");
}

}  // namespace
}  // namespace stepcast::validate
