#include "src/cli/rank_yield.h"

#include <string>

#include "gtest/gtest.h"
#include "src/messaging/byte_stream.h"

namespace stepcast::cli {
namespace {

constexpr ExpectedYield kExpected{.rank = 1, .ranks = 2, .instructions = 3, .steps = 2};

runtime::Measurement AMeasurement() {
  runtime::Measurement measurement;
  measurement.timeline.operations = {{.instruction = 2, .step = 1}};
  measurement.timeline.step_ends = {Time(), Time()};
  return measurement;
}

const runtime::Place kPlace{
    .rank = 1, .ranks = 2, .local_rank = 1, .local_ranks = 2, .host = "east"};

TEST(RankYield, ComesBack) {
  const auto yield = ToYield(ToBytes(kPlace, AMeasurement(), "weights"), kExpected);
  ASSERT_TRUE(yield) << yield.error().message;
  EXPECT_EQ(yield->run.place.host, "east");
  EXPECT_EQ(yield->run.place.local_rank, 1);
  EXPECT_EQ(yield->run.measurement.timeline.operations.size(), 1u);
  EXPECT_EQ(yield->weights, "weights");
}

TEST(RankYield, IndicesOfAnotherProgramAreRefused) {
  runtime::Measurement measurement = AMeasurement();
  measurement.timeline.operations[0].instruction = 3;
  auto yield = ToYield(ToBytes(kPlace, measurement, ""), kExpected);
  ASSERT_FALSE(yield);
  EXPECT_EQ(yield.error().message, "rank 1: the measurement belongs to another program");

  measurement = AMeasurement();
  measurement.timeline.step_ends.clear();
  EXPECT_FALSE(ToYield(ToBytes(kPlace, measurement, ""), kExpected));
}

TEST(RankYield, TextIsMadePrintable) {
  runtime::Place place = kPlace;
  place.host = "\x1b[2Jeast\xe2\x80\xae";
  const auto yield = ToYield(ToBytes(place, AMeasurement(), ""), kExpected);
  ASSERT_TRUE(yield);
  EXPECT_EQ(yield->run.place.host.find('\x1b'), std::string::npos);
  EXPECT_EQ(yield->run.place.host.find("\xe2\x80\xae"), std::string::npos);
}

TEST(RankYield, WhatIsNotWholeIsRefused) {
  const std::string bytes = ToBytes(kPlace, AMeasurement(), "weights");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ToYield(std::string_view(bytes).substr(0, size), kExpected)) << size;
  }
}

}  // namespace
}  // namespace stepcast::cli
