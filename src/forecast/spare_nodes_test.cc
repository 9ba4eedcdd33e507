#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/forecast/long_run.h"

namespace stepcast::forecast {
namespace {

SpareNodes Pool(std::int64_t spares, bool elastic) {
  // Of 10 nodes one fails each 10 days, and a repair takes 5 days: half a node is in repair if the
  // job never stands still.
  return {.nodes = 10,
          .spares = spares,
          .gpus_per_node = 8,
          .gpus_per_replica = 16,
          .elastic = elastic,
          .node_rate = 0.01,
          .repair = 5};
}

// Erlang's loss formula: of 0.5 with one place 0.5 / 1.5, with two 0.125 / 1.625.
TEST(SpareNodesTest, AJobStandsStillWhereSparesHaveRunOut) {
  EXPECT_NEAR(MeanThroughput(Pool(0, false)), 1 - 1 / 3.0, 1e-12);
  EXPECT_NEAR(MeanThroughput(Pool(1, false)), 1 - 0.125 / 1.625, 1e-12);
}

// Without spares one node in repair leaves 4 of 5 replicas, as do two: weights 1, 0.5, 0.1, ...
TEST(SpareNodesTest, AnElasticJobLosesReplicas) {
  SpareNodes pool = Pool(0, true);
  pool.nodes = 2;
  pool.node_rate = 0.05;
  pool.gpus_per_replica = 8;
  // Nodes in repair: 0, 1, 2 with weights 1, 0.5 and 0.5 x 0.5 x 0.5 / 2 = 0.0625.
  EXPECT_NEAR(MeanThroughput(pool), (1 + 0.5 * 0.5) / 1.5625, 1e-12);
}

TEST(SpareNodesTest, NothingIsLostWithoutFailuresOrRepairs) {
  SpareNodes pool = Pool(0, false);
  pool.repair = 0;
  EXPECT_EQ(MeanThroughput(pool), 1);
}

RC_GTEST_PROP(SpareNodesTest, MoreSparesAreNeverWorseAndLongerRepairsNeverBetter, ()) {
  SpareNodes pool{.nodes = *rc::gen::inRange(1, 3000),
                  .spares = *rc::gen::inRange(0, 50),
                  .gpus_per_node = 8,
                  .gpus_per_replica = *rc::gen::inRange(1, 300),
                  .elastic = *rc::gen::arbitrary<bool>(),
                  .node_rate = *rc::gen::inRange(0, 1000) * 1e-9,
                  .repair = static_cast<double>(*rc::gen::inRange(0, 1'000'000))};
  const double own = MeanThroughput(pool);
  RC_ASSERT(own >= 0 && own <= 1);
  constexpr double kRounding = 1e-9;
  SpareNodes other = pool;
  ++other.spares;
  RC_ASSERT(MeanThroughput(other) >= own - kRounding);
  other = pool;
  other.repair *= 2;
  RC_ASSERT(MeanThroughput(other) <= own + kRounding);
  other = pool;
  other.elastic = true;
  RC_ASSERT(MeanThroughput(other) >= own - kRounding);
}

}  // namespace
}  // namespace stepcast::forecast
