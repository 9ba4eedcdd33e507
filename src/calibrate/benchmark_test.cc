#include "src/calibrate/benchmark.h"

#include "gtest/gtest.h"

namespace stepcast::calibrate {
namespace {

using program::OperationRecord;
using program::Timeline;

OperationRecord Record(program::Index instruction, Time issued, Time start, Time end) {
  return {.instruction = instruction,
          .step = 0,
          .issued = issued,
          .ready = start,
          .start = start,
          .end = end};
}

Timeline OneStep(std::vector<OperationRecord> operations) {
  Timeline timeline;
  timeline.operations = std::move(operations);
  timeline.step_ends = {Seconds(1)};
  return timeline;
}

std::vector<double> Samples(const Benchmark& benchmark, const std::vector<Timeline>& ranks) {
  std::vector<std::string> packed;
  for (const Timeline& timeline : ranks) packed.push_back(PackRecords(benchmark, timeline));
  const auto samples = SamplesOf(benchmark, 1, packed);
  EXPECT_TRUE(samples.has_value());
  return samples ? samples->front() : std::vector<double>();
}

TEST(BenchmarkTest, PeriodsRunFromEndToEndOnTheSlowestRank) {
  Benchmark benchmark;
  benchmark.probes = {{Rule::kPeriod, {1, 2, 4}}};
  const auto us = [](int n) { return Microseconds(n); };
  const Timeline fast = OneStep({Record(1, us(0), us(1), us(2)), Record(2, us(0), us(2), us(3)),
                                 Record(4, us(0), us(3), us(4))});
  const Timeline slow = OneStep({Record(1, us(0), us(1), us(2)), Record(2, us(0), us(3), us(5)),
                                 Record(4, us(0), us(5), us(9))});
  EXPECT_EQ(Samples(benchmark, {fast, slow, fast}), (std::vector<double>{3e-6, 4e-6}));
}

TEST(BenchmarkTest, WhatWaitedForTheHostIsNoSample) {
  Benchmark benchmark;
  benchmark.probes = {{Rule::kPeriod, {0, 1, 2}}};
  const auto us = [](int n) { return Microseconds(n); };
  const Timeline one_late = OneStep({Record(0, us(0), us(1), us(2)), Record(1, us(1), us(2), us(5)),
                                     Record(2, us(9), us(9), us(12))});
  EXPECT_EQ(Samples(benchmark, {one_late}), (std::vector<double>{3e-6}));
  const Timeline all_late = OneStep({Record(0, us(0), us(1), us(2)), Record(1, us(3), us(4), us(5)),
                                     Record(2, us(9), us(9), us(12))});
  EXPECT_EQ(Samples(benchmark, {all_late}), (std::vector<double>{3e-6, 7e-6}));
}

TEST(BenchmarkTest, CollectivesRunFromTheLastThatComesToTheLastThatLeaves) {
  Benchmark benchmark;
  benchmark.probes = {{Rule::kCollective, {0}}};
  benchmark.groups = {{0, 1}, {2, 3}};
  const auto at = [](int start, int end) {
    return OneStep({Record(0, Time(), Microseconds(start), Microseconds(end))});
  };
  // 10 to 17, and 4 to 6.
  EXPECT_EQ(Samples(benchmark, {at(2, 17), at(10, 16), at(3, 5), at(4, 6)}),
            (std::vector<double>{7e-6, 2e-6}));
  // Rank 1's clock is 8 us ahead: 18 to 24 on it. 24 - 18 = 6, at least the shortest.
  EXPECT_EQ(Samples(benchmark, {at(2, 17), at(18, 24), at(3, 5), at(4, 6)}),
            (std::vector<double>{6e-6, 2e-6}));
  // The clock is 30 us ahead: 46 - 40 = 6. It is 30 us behind: 17 - 2 = 15, the longest.
  EXPECT_EQ(Samples(benchmark, {at(2, 17), at(-20, -14), at(3, 5), at(4, 6)}),
            (std::vector<double>{15e-6, 2e-6}));
}

TEST(BenchmarkTest, IssueIsASlopeThatOnePauseDoesNotMove) {
  Benchmark benchmark;
  benchmark.probes = {{Rule::kIssue, {0, 1, 2, 3, 4, 5, 6, 7}}};
  std::vector<OperationRecord> records;
  for (program::Index i = 0; i < 8; ++i) {
    const Time pause = i > 6 ? Milliseconds(1) : Time();
    records.push_back(Record(i, Microseconds(3) * i + pause, Time(), Time()));
  }
  const std::vector<double> samples = Samples(benchmark, {OneStep(records)});
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_NEAR(samples[0], 3e-6, 1e-12);
}

TEST(BenchmarkTest, MissingRecordsAreAFailure) {
  Benchmark benchmark;
  benchmark.probes = {{Rule::kPeriod, {0, 1}}};
  const Timeline whole = OneStep(
      {Record(0, Time(), Time(), Microseconds(1)), Record(1, Time(), Time(), Microseconds(2))});
  const Timeline half = OneStep({Record(0, Time(), Time(), Microseconds(1))});
  const auto samples =
      SamplesOf(benchmark, 1, {PackRecords(benchmark, whole), PackRecords(benchmark, half)});
  ASSERT_FALSE(samples.has_value());
  EXPECT_EQ(samples.error().message, "the times of rank 1 are not complete");
}

}  // namespace
}  // namespace stepcast::calibrate
