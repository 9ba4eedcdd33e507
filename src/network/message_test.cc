#include "src/network/message.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/rates.h"
#include "src/collective/ring.h"
#include "tests/examples/sample_lists.h"
#include "tests/examples/sample_networks.h"

namespace stepcast::network {
namespace {

using collective::MakeSample;
using collective::Ring;
using collective::StepList;

std::vector<int> Places(const StepList& list) {
  std::vector<int> places(static_cast<std::size_t>(list.participants()));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

// 2 us and 10 GB/s for each rank, on one switch.
Network Star(int ranks) {
  return MakeStar(
      std::vector<Time>(static_cast<std::size_t>(ranks), Microseconds(2)),
      std::vector<Bandwidth>(static_cast<std::size_t>(ranks), Bandwidth::GigabytesPerSecond(10)));
}

std::unique_ptr<StepList> AllReduce(int ranks, Bytes size) {
  return MakeSample({"ring", CollectiveKind::kAllReduce}, {.size = size, .ranks_per_node = ranks});
}

// The ring's recurrence. Rank r, counted along the ring, sends chunk after chunk, s = 0, 1, ...:
//   leaves[s][r]  = max(arrives[s - 1][r], leaves[s - 1][r] + d)
//   arrives[s][r] = leaves[s][r - 1] + d + latency of the hop from r - 1 to r
// Every rank ends when its last chunk has arrived.
TEST(MessageTest, FollowsTheRingsRecurrence) {
  rc::detail::checkGTest([] {
    const int ranks = *rc::gen::inRange(2, 80);
    std::vector<Time> latencies;
    for (int rank = 0; rank < ranks; ++rank) {
      latencies.push_back(Picoseconds(*rc::gen::inRange(0, 5'000'000)));
    }
    const Bandwidth bandwidth = Bandwidth::GigabytesPerSecond(*rc::gen::inRange(1, 100));
    const Bytes chunk(*rc::gen::inRange<std::int64_t>(1, 200'000));
    const Network network =
        MakeStar(latencies, std::vector<Bandwidth>(latencies.size(), bandwidth));
    std::vector<int> order(latencies.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(*rc::gen::arbitrary<std::uint32_t>()));
    const Ring ring({CollectiveKind::kAllReduce, chunk * ranks, {order}});
    const Traffic traffic = Traffic::Make(ring, network, Places(ring)).value();
    const MessageRun run = RunMessages(traffic);

    const Time d = chunk / bandwidth;
    const std::size_t n = order.size();
    std::vector<Time> arrived(n);
    std::vector<Time> left(n);  // when the last message has left
    for (std::size_t s = 0; s < 2 * (n - 1); ++s) {
      std::vector<Time> leaves(n);
      for (std::size_t r = 0; r < n; ++r) leaves[r] = std::max(arrived[r], left[r]);
      for (std::size_t r = 0; r < n; ++r) {
        left[r] = leaves[r] + d;
        const std::size_t before = (r + n - 1) % n;
        arrived[r] = leaves[before] + d + latencies[static_cast<std::size_t>(order[before])];
      }
    }
    for (std::size_t r = 0; r < n; ++r) {
      RC_ASSERT(run.rank_ends[0][static_cast<std::size_t>(order[r])] ==
                std::max(arrived[r], left[r]));
    }
    RC_ASSERT(run.messages == 2 * std::int64_t{ranks} * (ranks - 1));
    RC_ASSERT(run.queued == Time());
  });
}

// Two concurrent all-reduces of the same four ranks share every link. Uncontended, each takes 6 x 2
// us and 150 us; together they have 300 us of data per link. A single earlier one does not wait.
TEST(MessageTest, TwoJobsShareLinks) {
  const Network network = Star(4);
  const auto list = MakeSample({"ring", CollectiveKind::kAllReduce},
                               {.size = Bytes(1'000'000), .ranks_per_node = 4, .slices = 25});
  const Traffic traffic = Traffic::Make(*list, network, Places(*list)).value();
  const Time alone = RunMessages(traffic).ends[0];
  const MessageJob job{.calls = {&traffic}};
  const MessageJob later{.calls = {&traffic}, .start = alone};
  const std::vector<MessageJob> at_once = {job, job};
  const auto together = RunMessages(network, at_once);
  ASSERT_TRUE(together.has_value());
  EXPECT_GT(together->queued, Time());
  for (const Time end : together->ends) {
    EXPECT_GE(end, Microseconds(300));
    EXPECT_LE(end, Microseconds(315));
  }
  const std::vector<MessageJob> in_turn = {job, later};
  const auto apart = RunMessages(network, in_turn);
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->ends[0], alone);
  EXPECT_EQ(apart->ends[1], 2 * alone);
  EXPECT_EQ(apart->queued, Time());
}

// A rank enters its next call when it is done with its previous one, not when all ranks are.
TEST(MessageTest, CallsFollowOneAnother) {
  const Network network = Star(4);
  const auto list = AllReduce(4, Bytes(400'000));
  const Traffic traffic = Traffic::Make(*list, network, Places(*list)).value();
  const MessageJob job{.calls = {&traffic, &traffic, &traffic}, .start = Seconds(1)};
  const auto run = RunMessages(network, std::span(&job, 1));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->ends[0], Seconds(1) + 3 * RunMessages(traffic).ends[0]);
}

TEST(MessageTest, SwitchesTakePartInEveryCall) {
  const SampleNetwork sample = MakeSampleNetwork(1, 4, 0);
  const auto list = MakeSample({"nvls", CollectiveKind::kAllReduce},
                               {.size = Bytes(400'000), .ranks_per_node = 4});
  const Traffic traffic = Traffic::Make(*list, sample.network, sample.PlacesOf(*list)).value();
  const MessageJob job{.calls = {&traffic}, .orders = {{0, 0}, {0, 0}, {0, 0}, {0, 0}}};
  const auto run = RunMessages(sample.network, std::span(&job, 1));
  ASSERT_TRUE(run.has_value());
  EXPECT_GT(run->ends[0], RunMessages(traffic).ends[0]);
}

// Ranks 0 and 2 reduce 64 KiB, rank 1 reduces 32 KiB.
TEST(DeadlockTest, NamesBothSidesOfASizeMismatch) {
  const Network network = Star(3);
  const auto large = AllReduce(3, KiB(64));
  const auto small = AllReduce(3, KiB(32));
  const Traffic first = Traffic::Make(*large, network, Places(*large)).value();
  const Traffic second = Traffic::Make(*small, network, Places(*small)).value();
  const MessageJob job{.calls = {&first, &second}, .orders = {{0}, {1}, {0}}};
  const auto run = RunMessages(network, std::span(&job, 1));
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().report,
            "rank 0 waits in call 0, all_reduce of 65536 B by ring over 3 ranks, for rank 2, which "
            "waits in the same call\n"
            "rank 1 waits in call 1, all_reduce of 32768 B by ring over 3 ranks, for rank 0, which "
            "waits in call 0, all_reduce of 65536 B by ring over 3 ranks\n"
            "rank 2 waits in call 0, all_reduce of 65536 B by ring over 3 ranks, for rank 1, which "
            "waits in call 1, all_reduce of 32768 B by ring over 3 ranks\n");
}

// Two ranks with the same calls in another order.
TEST(DeadlockTest, NamesBothSidesOfAnotherOrder) {
  const Network network = Star(2);
  const auto reduce = AllReduce(2, KiB(64));
  const auto gather =
      MakeSample({"ring", CollectiveKind::kAllGather}, {.size = KiB(64), .ranks_per_node = 2});
  const Traffic first = Traffic::Make(*reduce, network, Places(*reduce)).value();
  const Traffic second = Traffic::Make(*gather, network, Places(*gather)).value();
  const MessageJob agreed{.calls = {&first, &second}, .orders = {{1, 0}, {1, 0}}};
  EXPECT_TRUE(RunMessages(network, std::span(&agreed, 1)).has_value());
  const MessageJob crossed{.calls = {&first, &second}, .orders = {{0, 1}, {1, 0}}};
  const auto run = RunMessages(network, std::span(&crossed, 1));
  ASSERT_FALSE(run.has_value());
  ASSERT_EQ(run.error().waiting.size(), 2U);
  EXPECT_EQ(run.error().waiting[0].call, 0);
  EXPECT_EQ(run.error().waiting[0].peer, 1);
  EXPECT_EQ(run.error().waiting[0].peer_call, 1);
  EXPECT_EQ(run.error().waiting[1].call, 1);
  EXPECT_EQ(run.error().waiting[1].peer_call, 0);
}

// A rank that makes no call at all.
TEST(DeadlockTest, NamesWhoHasMadeAllCalls) {
  const Network network = Star(2);
  const auto reduce = AllReduce(2, KiB(64));
  const Traffic traffic = Traffic::Make(*reduce, network, Places(*reduce)).value();
  const MessageJob job{.calls = {&traffic}, .orders = {{0}, {}}};
  const auto run = RunMessages(network, std::span(&job, 1));
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().report,
            "rank 0 waits in call 0, all_reduce of 65536 B by ring over 2 ranks, for rank 1, which "
            "has made all its calls\n");
}

// For any jobs, a link never carries more than its bandwidth.
TEST(MessageTest, CrowdedLinksKeepTheirBandwidth) {
  rc::detail::checkGTest([] {
    const int nodes = *rc::gen::inRange(1, 4);
    const int ranks_per_node = *rc::gen::inRange(2, 4);
    const SampleNetwork sample =
        MakeSampleNetwork(nodes, ranks_per_node, *rc::gen::inRange<std::uint32_t>(0, 10'000));
    std::vector<std::unique_ptr<StepList>> lists;
    std::vector<Traffic> traffics;
    const auto samples = collective::AllSamples();
    const int jobs = *rc::gen::inRange(1, 5);
    for (int job = 0; job < jobs; ++job) {
      lists.push_back(MakeSample(*rc::gen::elementOf(samples),
                                 {.size = Bytes(*rc::gen::inRange<std::int64_t>(1, 10'000'000)),
                                  .nodes = nodes,
                                  .ranks_per_node = ranks_per_node,
                                  .loops = *rc::gen::inRange(1, 9)}));
      traffics.push_back(
          Traffic::Make(*lists.back(), sample.network, sample.PlacesOf(*lists.back())).value());
    }
    std::vector<MessageJob> all;
    std::vector<double> bytes(static_cast<std::size_t>(sample.network.links()));
    for (const Traffic& traffic : traffics) {
      all.push_back({.calls = {&traffic}});
      // Later loops may have a byte less a block.
      double blocks = 0;
      for (const Connection& connection : traffic.connections()) {
        blocks += static_cast<double>(connection.blocks) * traffic.list().loops();
      }
      for (const Traffic::Load& load : traffic.loads()) {
        bytes[static_cast<std::size_t>(load.link)] += load.bytes - blocks;
      }
    }
    const auto run = RunMessages(sample.network, all);
    RC_ASSERT(run.has_value());
    const Time end = *std::max_element(run->ends.begin(), run->ends.end());
    for (int link = 0; link < sample.network.links(); ++link) {
      const auto bandwidth =
          static_cast<double>(sample.network.link(link).bandwidth.bytes_per_second());
      RC_ASSERT(end.seconds() >= bytes[static_cast<std::size_t>(link)] / bandwidth * (1 - 1e-9));
    }
    for (std::size_t job = 0; job < all.size(); ++job) {
      RC_ASSERT(run->ends[job] >= traffics[job].bandwidth_bound());
    }
  });
}

// Two rings that share all links, the second starting during the first. Driven from outside, they
// give the results of one batch; and they can be started again.
TEST(MessageTest, DrivenFromOutsideItIsTheSame) {
  const Network network = Star(6);
  const auto large = AllReduce(6, Bytes(600'000));
  const auto small = AllReduce(6, Bytes(240'000));
  const Traffic one = Traffic::Make(*large, network, Places(*large)).value();
  const Traffic other = Traffic::Make(*small, network, Places(*small)).value();
  const std::vector<MessageJob> jobs = {{.calls = {&one}},
                                        {.calls = {&other}, .start = Microseconds(20)}};
  const MessageRun batch = RunMessages(network, jobs).value();
  EXPECT_GT(batch.queued, Time());

  MessageNetwork driven(network, {{&one}, {&other}});
  for (const Time begin : {Time(), Milliseconds(1)}) {
    driven.Start(0, 0, begin);
    driven.Start(1, 0, begin + Microseconds(20));
    std::vector<Time> ends(2);
    while (!driven.idle()) {
      const Time now = driven.next();
      std::vector<std::uint32_t> ended;
      driven.Advance(ended);
      for (const std::uint32_t job : ended) ends[job] = now - begin;
    }
    EXPECT_EQ(ends, batch.ends);
  }
  EXPECT_EQ(driven.messages(), 2 * batch.messages);
}

}  // namespace
}  // namespace stepcast::network
