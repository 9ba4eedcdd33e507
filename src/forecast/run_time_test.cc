#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/forecast/long_run.h"

namespace stepcast::forecast {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Published Given(double value) { return {value, value, value, true}; }

// A job of nodes of 8 GPUs, of a model with 14 bytes of state a parameter.
LongRun Job(std::int64_t gpus, double parameters, double days) {
  LongRun run;
  run.work = days * kDay;
  run.state = 14 * parameters;
  run.saving_gpus = gpus;
  run.pool = {.nodes = gpus / 8, .gpus_per_node = 8, .gpus_per_replica = 128};
  return run;
}

RunTime Defaults(const LongRun& run, bool manual = false) {
  return RunTimeOf(run, PublishedInputs(8, run.pool.nodes, manual));
}

void ExpectInRange(double published, const RunTime& time) {
  EXPECT_GE(published, time.work_range.first);
  EXPECT_LE(published, time.work_range.second);
}

// 466 interruptions in 54 days on 16,384 GPUs, of which more than 90 % were effective.
TEST(RunTimeTest, Llama3) {
  const RunTime time = Defaults(Job(16'384, 405e9, 54 * 0.9));
  EXPECT_NEAR(time.expected_failures, 466, 20);
  EXPECT_GE(time.shares.work, 0.88);
  ExpectInRange(0.9, time);
}

// Jobs of 1,024 GPUs failed each 7.9 h, though RSC-1's nodes alone would have let them run for 28.8
// h: 6.5 failures in 1,000 node-days. They saved each hour; an effective time of about 0.9 was
// published.
TEST(RunTimeTest, JobsOfRsc) {
  LongRun job = Job(1'024, 30e9, 10);
  job.interval = kHour;
  EXPECT_NEAR(1 / Defaults(job).failures.rate / kHour, 7.9, 0.5);
  ExpectInRange(0.9, Defaults(job));

  RunInputs inputs = PublishedInputs(8, 128, false);
  inputs.node_mtbf = Given(kDay / 6.5e-3);
  inputs.job_mtbf = Given(kNever);
  EXPECT_NEAR(1 / RunTimeOf(job, inputs).failures.rate / kHour, 28.8, 0.1);
  inputs.job_mtbf = Given(kHour / (1 / 7.9 - 1 / 28.8));
  EXPECT_NEAR(1 / RunTimeOf(job, inputs).failures.rate / kHour, 7.9, 0.02);
}

// 97 % over three months on 9,600 GPUs, by a system that detects and restarts by itself.
TEST(RunTimeTest, ByteRobust) { ExpectInRange(0.97, Defaults(Job(9'600, 200e9, 90))); }

// 992 GPUs were up for 59 % of the time, restarted by people; a failure each 7.5 h.
TEST(RunTimeTest, Opt175BWasRestartedByPeople) {
  const RunTime time = Defaults(Job(992, 175e9, 33), true);
  EXPECT_NEAR(1 / time.failures.rate / kHour, 7.5, 1);
  ExpectInRange(0.59, time);
}

// Where all is given only chance is left: of n failures nine of ten runs have n +- 1.645 sqrt(n).
TEST(RunTimeTest, WhatIsGivenHasNoRangeButChance) {
  LongRun job = Job(1'024, 30e9, 100);
  job.interval = kHour;
  const RunInputs inputs{.node_mtbf = Given(kNever),
                         .job_mtbf = Given(10 * kHour),
                         .detection = Given(60),
                         .restart = Given(540),
                         .storage = Given(1e12)};
  const RunTime time = RunTimeOf(job, inputs);
  const double lost = 1 - time.shares.work;
  const double spread = 1.645 / std::sqrt(time.expected_failures);
  EXPECT_NEAR(1 - time.work_range.first, lost * (1 + spread), lost * 0.02);
  EXPECT_NEAR(1 - time.work_range.second, lost * (1 - spread), lost * 0.02);
}

TEST(RunTimeTest, WithoutFailuresOneSaveAtTheEnd) {
  LongRun job = Job(8, 1e9, 1);
  job.async = false;
  const RunInputs never{.node_mtbf = Given(kNever),
                        .job_mtbf = Given(kNever),
                        .detection = {},
                        .restart = {},
                        .storage = Given(1e9)};
  const RunTime time = RunTimeOf(job, never);
  EXPECT_EQ(time.interval, kDay);
  EXPECT_DOUBLE_EQ(time.shares.work, kDay / (kDay + 14));
  EXPECT_FALSE(time.young_and_daly.has_value());
}

constexpr PowerByPhase kPower = {.computing = 700, .updating = 500, .waiting = 100};

TimeBreakdown Breakdown(std::int64_t computing, std::int64_t idle) {
  TimeBreakdown time;
  time.phase[static_cast<std::size_t>(program::Phase::kForward)] = Seconds(computing);
  time.idle = Seconds(idle);
  return time;
}

// A correction by measured runs, here to half of the time, scales all parts of a step.
TEST(RunTimeTest, ACorrectedStepDrawsTheSamePower) {
  Forecast forecast;
  forecast.step_time = Seconds(4);
  forecast.time = Breakdown(3, 1);
  EXPECT_DOUBLE_EQ(MeanPower(kPower, forecast), (3 * 700 + 100) / 4.0);
  forecast.step_time = Seconds(2);
  forecast.time.learned = Seconds(-2);
  EXPECT_DOUBLE_EQ(MeanPower(kPower, forecast), (3 * 700 + 100) / 4.0);
}

// Three ranks compute for a quarter of the step, and one rank for all of it.
TEST(RunTimeTest, PowerIsTheMeanOverAllRanks) {
  Forecast forecast;
  forecast.step_time = Seconds(4);
  forecast.classes.resize(2);
  forecast.classes[0].ranks = 3;
  forecast.classes[0].time = Breakdown(1, 3);
  forecast.classes[1].time = Breakdown(4, 0);
  EXPECT_DOUBLE_EQ(MeanPower(kPower, forecast), (3 * (700 + 3 * 100) / 4.0 + 700) / 4);
  EXPECT_DOUBLE_EQ(StepEnergy(kPower, forecast), 4 * MeanPower(kPower, forecast));
}

double AnyOf(int least, int end) { return *rc::gen::inRange(least, end); }  // [least, end)

RC_GTEST_PROP(RunTimeTest, MoreFailuresSlowerStorageAndLongerRestartsAreNeverBetter, ()) {
  LongRun job = Job(8 * *rc::gen::inRange(1, 2000), AnyOf(1, 1000) * 1e9, AnyOf(1, 100));
  job.async = *rc::gen::arbitrary<bool>();
  job.limited_spares = *rc::gen::arbitrary<bool>();
  job.pool.spares = *rc::gen::inRange(0, 5);
  job.pool.elastic = *rc::gen::arbitrary<bool>();
  job.pool.repair = AnyOf(0, 10) * kDay;
  const RunInputs own{.node_mtbf = Given(AnyOf(10, 1000) * kDay),
                      .job_mtbf = Given(AnyOf(1, 1000) * kHour),
                      .detection = Given(AnyOf(0, 3600)),
                      .restart = Given(AnyOf(1, 3600)),
                      .storage = Given(AnyOf(1, 1000) * 1e9)};
  const double work = RunTimeOf(job, own).shares.work;
  RC_ASSERT(work >= 0 && work <= 1);
  const auto never_better = [&](Published RunInputs::*input, double factor) {
    RunInputs other = own;
    other.*input = Given((own.*input).likely * factor);
    RC_ASSERT(RunTimeOf(job, other).shares.work <= work * (1 + 1e-9));
  };
  never_better(&RunInputs::node_mtbf, 0.7);
  never_better(&RunInputs::job_mtbf, 0.7);
  never_better(&RunInputs::detection, 1.5);
  never_better(&RunInputs::restart, 1.5);
  never_better(&RunInputs::storage, 0.7);
}

}  // namespace
}  // namespace stepcast::forecast
