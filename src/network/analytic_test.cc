#include "src/network/analytic.h"

#include <numeric>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/rates.h"
#include "src/collective/ring.h"
#include "src/network/message.h"
#include "tests/examples/sample_lists.h"
#include "tests/examples/sample_networks.h"

namespace stepcast::network {
namespace {

using collective::MakeSample;
using collective::Sample;
using collective::SampleShape;

// On one switch, 2 us and 10 GB/s for each of n ranks; a reducing switch is the switch itself.
Time OnAStar(const Sample& sample, const SampleShape& shape) {
  const auto list = MakeSample(sample, shape);
  Network::Description description;
  const int hub = description.AddDevice("hub", true);
  for (int rank = 0; rank < list->ranks(); ++rank) {
    const int device = description.AddDevice("rank", false);
    description.AddLink({device, hub, Microseconds(2), Bandwidth::GigabytesPerSecond(10)});
    description.AddLink({hub, device, Time(), Bandwidth::GigabytesPerSecond(10)});
    description.AddPlace({device});
  }
  std::vector<int> places(static_cast<std::size_t>(list->participants()));
  std::iota(places.begin(), places.end(), 0);
  if (list->switches() > 0) description.AddPlace({hub});
  const Network network = Network::Make(description).value();
  return PriceAnalytically(Traffic::Make(*list, network, places).value()).total;
}

// docs/collectives.md: 2 (n - 1) steps of 2 us and 1 MB / 8 over 10 GB/s, 12.5 us.
TEST(AnalyticTest, Ring) {
  const SampleShape shape{.size = Bytes(1'000'000), .ranks_per_node = 8};
  EXPECT_EQ(OnAStar({"ring", CollectiveKind::kAllReduce}, shape), 14 * Nanoseconds(14'500));
  EXPECT_EQ(OnAStar({"ring", CollectiveKind::kReduceScatter}, shape), 7 * Nanoseconds(14'500));
  EXPECT_EQ(OnAStar({"ring", CollectiveKind::kAllGather}, shape), 7 * Nanoseconds(14'500));
}

// Four slices of 3.125 us: the first slice of a chunk is passed on 5.125 us after it was sent,
// before the last has left at 12.5 us. So every rank sends without pause: 14 x 12.5 us, and 2 us.
TEST(AnalyticTest, SlicesHideLatency) {
  const SampleShape shape{.size = Bytes(1'000'000), .ranks_per_node = 8, .slices = 4};
  EXPECT_EQ(OnAStar({"ring", CollectiveKind::kAllReduce}, shape), Microseconds(14 * 25 / 2 + 2));
}

// 100 loops of 10 kB, 1 us: the last of 8 ranks has the first after 7 hops of 3 us.
TEST(AnalyticTest, BroadcastAlongTheRing) {
  const SampleShape shape{.size = Bytes(1'000'000), .ranks_per_node = 8, .loops = 100};
  EXPECT_EQ(OnAStar({"ring", CollectiveKind::kBroadcast}, shape), Microseconds(7 * 3 + 99));
}

// Two trees of half the buffer each, 50 loops of 10 kB. A rank's link carries 4 of them per loop,
// and a message takes 4 us on its quarter of the link. Messages of less loaded ranks are faster,
// but links into ranks with more load are not. Depth 3 over 8 ranks: up to 6 hops of at most 6 us,
// and 49 loops of 4 us.
TEST(AnalyticTest, DoubleBinaryTree) {
  const SampleShape shape{.size = Bytes(1'000'000), .ranks_per_node = 8, .loops = 50};
  const Time time = OnAStar({"tree", CollectiveKind::kAllReduce}, shape);
  EXPECT_LE(time, Microseconds(6 * 6 + 49 * 4));
  EXPECT_GE(time, Microseconds(6 * 2 + 50 * 4));
}

// The switch adds: each rank's link carries 9/8 of the buffer, 112.5 us in 10 loops and 8 heads.
// Up, sum down, result up, copy down: the first block of a loop takes four hops. That is far below
// the ring's 14/8.
TEST(AnalyticTest, InSwitchReduction) {
  const SampleShape shape{.size = Bytes(1'000'000), .ranks_per_node = 8, .loops = 10};
  const Time time = OnAStar({"nvls", CollectiveKind::kAllReduce}, shape);
  EXPECT_GE(time, Nanoseconds(112'500));
  EXPECT_LE(time, Nanoseconds(112'500 + 2 * 12'000 + 4 * 2'000));
}

// Three rounds over 8 ranks, with 1, 2 and 4 blocks of 12.5 us.
TEST(AnalyticTest, Pat) {
  const SampleShape shape{.size = Bytes(1'000'000), .ranks_per_node = 8};
  EXPECT_EQ(OnAStar({"pat", CollectiveKind::kAllGather}, shape), Nanoseconds(7 * 12'500 + 6'000));
}

// Seven blocks out of 8, all at once.
TEST(AnalyticTest, AllToAll) {
  const SampleShape shape{.size = Bytes(1'000'000), .ranks_per_node = 8};
  const Time time = OnAStar({"pairwise", CollectiveKind::kAllToAll}, shape);
  EXPECT_NEAR(time.microseconds(), 87.5 + 2, 1e-3);
}

TEST(AnalyticTest, OneRankTakesNoTime) {
  for (const Sample& sample : collective::AllSamples()) {
    if (sample.algorithm == "nvls" || sample.algorithm == "nvls_tree" ||
        sample.algorithm == "collnet") {
      continue;  // they talk to their switch
    }
    EXPECT_EQ(OnAStar(sample, {.size = MiB(1)}), Time()) << sample.algorithm;
  }
}

// Rings too large for step-by-step evaluation: the longest walk compared with every message.
// Latencies differ, and bandwidths in half of the cases.
TEST(AnalyticTest, LargeRingsWalk) {
  rc::detail::checkGTest([] {
    const int ranks = *rc::gen::inRange(91, 130);  // 4 loops of 181 steps and more of 91 ranks
    const bool uneven = *rc::gen::arbitrary<bool>();
    std::vector<Time> latencies;
    std::vector<Bandwidth> bandwidths;
    for (int rank = 0; rank < ranks; ++rank) {
      latencies.push_back(Nanoseconds(*rc::gen::inRange(0, 10'000)));
      bandwidths.push_back(Bandwidth::GigabytesPerSecond(uneven ? *rc::gen::inRange(5, 50) : 20));
    }
    const Network network = MakeStar(latencies, bandwidths);
    const auto kind = *rc::gen::element(CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                        CollectiveKind::kAllGather);
    const auto ring = MakeSample(
        {"ring", kind}, {.size = Bytes(ranks * (std::int64_t{1} << *rc::gen::inRange(6, 20))),
                         .ranks_per_node = ranks,
                         .channels = *rc::gen::inRange(1, 3),
                         .loops = *rc::gen::inRange(4, 7),
                         .slices = *rc::gen::inRange(1, 4),
                         .seed = 5});
    std::vector<int> places(static_cast<std::size_t>(ranks));
    std::iota(places.begin(), places.end(), 0);
    const Traffic traffic = Traffic::Make(*ring, network, places).value();
    const double analytic = PriceAnalytically(traffic).total.seconds();
    const double message = RunMessages(traffic).ends[0].seconds();
    RC_LOG() << analytic * 1e6 << " us, message " << message * 1e6 << " us";
    RC_ASSERT(analytic <= message * 1.01);
    RC_ASSERT(analytic >= message / 1.01);
  });
}

}  // namespace
}  // namespace stepcast::network
