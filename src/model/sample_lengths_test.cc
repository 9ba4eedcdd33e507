#include "src/model/sample_lengths.h"

#include "gtest/gtest.h"

namespace stepcast::model {
namespace {

TEST(SampleLengthsTest, MeansOverSamplesAndOverTokens) {
  // Three samples of 100 tokens for each of 500: 800 tokens of 4 samples; 300 of the tokens are of
  // samples of 100, 500 of a sample of 500: (300 x 100 + 500 x 500) / 800.
  const SampleLengths lengths = {{100, 3}, {500, 1}};
  EXPECT_DOUBLE_EQ(MeanLength(lengths), 200);
  EXPECT_DOUBLE_EQ(MeanLengthOfTokens(lengths), 350);
}

TEST(SampleLengthsTest, OfOneLengthBothMeansAreIt) {
  const SampleLengths lengths = {{512, 0.3}};
  EXPECT_DOUBLE_EQ(MeanLength(lengths), 512);
  EXPECT_DOUBLE_EQ(MeanLengthOfTokens(lengths), 512);
}

}  // namespace
}  // namespace stepcast::model
