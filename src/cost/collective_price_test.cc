#include "src/cost/collective_price.h"

#include <cstddef>
#include <string>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/cost/exact_time.h"

namespace stepcast::cost {
namespace {

using scenario::CollectiveAlgorithm;
using topology::CommunicationPath;

CommunicationPath FlatPath(int ranks, Time latency, Bandwidth bandwidth) {
  CommunicationPath path;
  path.ranks = ranks;
  path.nodes = ranks;
  path.ranks_per_node = 1;
  path.inter_latency = latency;
  path.inter_bandwidth = bandwidth;
  path.ring_bandwidth = bandwidth;
  path.flat = true;
  return path;
}

// Nodes of eight GPUs on 400 GB/s NVLink, joined by 200 GB/s of NICs a node.
CommunicationPath NvLinkPath(int nodes) {
  CommunicationPath path;
  path.ranks = 8 * nodes;
  path.nodes = nodes;
  path.ranks_per_node = 8;
  path.intra_latency = Microseconds(1);
  path.intra_bandwidth = Bandwidth::GigabytesPerSecond(400);
  path.intra_is_nvlink = true;
  path.ring_bandwidth = path.intra_bandwidth;
  if (nodes > 1) {
    path.inter_latency = Microseconds(2);
    path.inter_bandwidth = Bandwidth::GigabytesPerSecond(200);
    path.ring_bandwidth = path.inter_bandwidth;
  }
  return path;
}

calibration::LinkCosts RoundLinks() {
  calibration::LinkCosts links;
  links.nvlink_efficiency = 0.75;
  links.pcie_efficiency = 0.25;
  links.network_efficiency = 0.5;
  links.ring_base = Microseconds(8);
  links.tree_base = Microseconds(9);
  links.ring_nvlink_hop = Microseconds(3);
  links.ring_pcie_hop = Microseconds(5);
  links.ring_network_hop = Microseconds(14);
  links.tree_nvlink_hop = Microseconds(4);
  links.tree_pcie_hop = Microseconds(6);
  links.tree_network_hop = Microseconds(15);
  return links;
}

double Share(const Demand& demand, Resource resource) {
  return demand.share[static_cast<std::size_t>(resource)];
}

CollectivePrice Flat(CollectiveKind kind, Bytes bytes, const CommunicationPath& path,
                     CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing) {
  return PriceModelledCollective(kind, bytes, path, nullptr, algorithm);
}

// 4 ranks, 5 us, 25 GB/s, 1 GB: all messages leave at once, 3/4 of the buffer over a rank's link.
TEST(FlatClusterTest, ExchangesTakeOneLatencyAndTheBusiestLink) {
  const CommunicationPath path = FlatPath(4, Microseconds(5), Bandwidth::GigabytesPerSecond(25));
  const Bytes bytes(1'000'000'000);
  for (CollectiveKind kind :
       {CollectiveKind::kAllToAll, CollectiveKind::kScatter, CollectiveKind::kGather}) {
    const CollectivePrice price = Flat(kind, bytes, path);
    EXPECT_EQ(price.demand.latency, Microseconds(5));
    EXPECT_EQ(price.demand.work, Milliseconds(30));
    EXPECT_STREQ(price.algorithm, "pairwise");
  }
  EXPECT_EQ(Flat(CollectiveKind::kSendRecv, bytes, path).demand.work, Milliseconds(40));
  EXPECT_DOUBLE_EQ(WireBytesPerRank(CollectiveKind::kAllToAll, bytes, 4), 0.75e9);
  EXPECT_DOUBLE_EQ(WireBytesPerRank(CollectiveKind::kScatter, bytes, 4), 0.1875e9);
  EXPECT_DOUBLE_EQ(WireBytesPerRank(CollectiveKind::kSendRecv, bytes, 4), 1e9);
}

// A reduction to a root is a broadcast backwards: 3 x 5 us and the whole buffer.
TEST(FlatClusterTest, ReduceIsBroadcastBackwards) {
  const CollectivePrice price =
      Flat(CollectiveKind::kReduce, Bytes(1'000'000'000),
           FlatPath(4, Microseconds(5), Bandwidth::GigabytesPerSecond(25)));
  EXPECT_EQ(price.demand.latency, Microseconds(15));
  EXPECT_EQ(price.demand.work, Milliseconds(40));
}

TEST(FlatClusterTest, RingAllReduceIsTheTextbook) {
  // 4 ranks, 5 us, 25 GB/s, 1 GB: 2 x 3 x 5 us = 30 us and 2 x 3/4 x 1e9 / 25e9 = 60 ms.
  const CollectivePrice price =
      Flat(CollectiveKind::kAllReduce, Bytes(1'000'000'000),
           FlatPath(4, Microseconds(5), Bandwidth::GigabytesPerSecond(25)));
  EXPECT_EQ(price.demand.latency, Microseconds(30));
  EXPECT_EQ(price.demand.work, Milliseconds(60));
  EXPECT_EQ(price.bandwidth_bound, Milliseconds(60));
  EXPECT_STREQ(price.algorithm, "ring");
  EXPECT_DOUBLE_EQ(price.wire_bytes_per_rank, 1.5e9);
  EXPECT_EQ(price.demand.provenance, Provenance::kModelled);
  EXPECT_DOUBLE_EQ(Share(price.demand, Resource::kNetwork), 1);
  EXPECT_DOUBLE_EQ(Share(price.demand, Resource::kScaleUp), 0);
}

TEST(FlatClusterTest, HalvesOfAnAllReduceTakeHalfOfIt) {
  const CommunicationPath path = FlatPath(4, Microseconds(5), Bandwidth::GigabytesPerSecond(25));
  for (CollectiveKind kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
    for (CollectiveAlgorithm algorithm :
         {CollectiveAlgorithm::kAuto, CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree}) {
      const CollectivePrice price = Flat(kind, Bytes(1'000'000'000), path, algorithm);
      EXPECT_EQ(price.demand.latency, Microseconds(15));
      EXPECT_EQ(price.demand.work, Milliseconds(30));
      EXPECT_STREQ(price.algorithm, "ring");
      EXPECT_DOUBLE_EQ(price.wire_bytes_per_rank, 0.75e9);
    }
  }
}

TEST(FlatClusterTest, PipelinedBroadcastSendsTheBufferOnce) {
  // 3 x 5 us and 1e9 / 25e9 = 40 ms; the last rank sends nothing, so 3/4 of it on average.
  const CollectivePrice price =
      Flat(CollectiveKind::kBroadcast, Bytes(1'000'000'000),
           FlatPath(4, Microseconds(5), Bandwidth::GigabytesPerSecond(25)));
  EXPECT_EQ(price.demand.latency, Microseconds(15));
  EXPECT_EQ(price.demand.work, Milliseconds(40));
  EXPECT_EQ(price.bandwidth_bound, Milliseconds(40));
  EXPECT_DOUBLE_EQ(price.wire_bytes_per_rank, 0.75e9);
}

TEST(FlatClusterTest, DoubleBinaryTreeHasLogarithmicDepth) {
  // 5 ranks: depth ceil(log2 5) = 3. All-reduce 2 x 3 x 5 us and 2 x 1e9 / 25e9 = 80 ms.
  const CommunicationPath path = FlatPath(5, Microseconds(5), Bandwidth::GigabytesPerSecond(25));
  const CollectivePrice all_reduce =
      Flat(CollectiveKind::kAllReduce, Bytes(1'000'000'000), path, CollectiveAlgorithm::kTree);
  EXPECT_EQ(all_reduce.demand.latency, Microseconds(30));
  EXPECT_EQ(all_reduce.demand.work, Milliseconds(80));
  EXPECT_STREQ(all_reduce.algorithm, "tree");
  EXPECT_DOUBLE_EQ(all_reduce.wire_bytes_per_rank, 1.6e9);
  const CollectivePrice broadcast =
      Flat(CollectiveKind::kBroadcast, Bytes(1'000'000'000), path, CollectiveAlgorithm::kTree);
  EXPECT_EQ(broadcast.demand.latency, Microseconds(15));
  EXPECT_EQ(broadcast.demand.work, Milliseconds(40));
  EXPECT_STREQ(broadcast.algorithm, "tree");
}

TEST(FlatClusterTest, TreeDepthsByHand) {
  const struct {
    int ranks;
    int depth;
  } cases[] = {{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {512, 9}, {513, 10}};
  for (const auto& [ranks, depth] : cases) {
    const CollectivePrice price =
        Flat(CollectiveKind::kAllReduce, Bytes(0),
             FlatPath(ranks, Microseconds(1), Bandwidth::GigabytesPerSecond(1)),
             CollectiveAlgorithm::kTree);
    EXPECT_EQ(price.demand.uncontended(), Microseconds(2 * depth)) << ranks;
  }
}

TEST(FlatClusterTest, AutoTakesTheFasterAndTheRingOnATie) {
  // 4 ranks, 1 us, 1 GB/s: ring 6 us + 1.5 S, tree 4 us + 2 S; both 10 us at 4000 B (in ns a byte).
  const CommunicationPath path = FlatPath(4, Microseconds(1), Bandwidth::GigabytesPerSecond(1));
  const auto algorithm = [&](std::int64_t bytes) {
    return std::string(
        Flat(CollectiveKind::kAllReduce, Bytes(bytes), path, CollectiveAlgorithm::kAuto).algorithm);
  };
  EXPECT_EQ(algorithm(3999), "tree");
  EXPECT_EQ(algorithm(4000), "ring");
  EXPECT_EQ(algorithm(4001), "ring");
}

TEST(FlatClusterTest, OneRankDoesNothing) {
  const CollectivePrice price = Flat(CollectiveKind::kAllReduce, MiB(1), CommunicationPath());
  EXPECT_EQ(price.demand.uncontended(), Time());
  EXPECT_STREQ(price.algorithm, "none");
  EXPECT_DOUBLE_EQ(price.wire_bytes_per_rank, 0);
}

// The closed forms to the picosecond, computed differently from the code: with quotient and
// remainder instead of one wide product.
Time RoundedUp(std::int64_t rounds, Bytes bytes, std::int64_t ranks, Bandwidth bandwidth) {
  __extension__ using Wide = unsigned __int128;
  const Wide sent = static_cast<Wide>(rounds) * (ranks - 1) * bytes.count();
  const Wide rate = static_cast<Wide>(ranks) * bandwidth.bytes_per_second();
  const Wide seconds = sent / rate;
  const Wide rest = (sent % rate) * 1'000'000'000'000;
  return Seconds(static_cast<std::int64_t>(seconds)) +
         Picoseconds(static_cast<std::int64_t>(rest / rate + (rest % rate != 0 ? 1 : 0)));
}

RC_GTEST_PROP(FlatClusterTest, RingIsTheClosedFormToThePicosecond, ()) {
  const int ranks = *rc::gen::inRange(2, 10'000);
  const Time latency = Picoseconds(*rc::gen::inRange<std::int64_t>(0, 100'000'000));
  const auto bandwidth =
      Bandwidth::BytesPerSecond(*rc::gen::inRange<std::int64_t>(1'000'000, 1'000'000'000'000));
  const Bytes bytes(*rc::gen::inRange<std::int64_t>(0, 10'000'000'000));
  const CommunicationPath path = FlatPath(ranks, latency, bandwidth);
  RC_ASSERT(Flat(CollectiveKind::kAllReduce, bytes, path).demand.uncontended() ==
            2 * std::int64_t{ranks - 1} * latency + RoundedUp(2, bytes, ranks, bandwidth));
  RC_ASSERT(Flat(CollectiveKind::kAllGather, bytes, path).demand.uncontended() ==
            std::int64_t{ranks - 1} * latency + RoundedUp(1, bytes, ranks, bandwidth));
  RC_ASSERT(Flat(CollectiveKind::kReduceScatter, bytes, path).demand.uncontended() ==
            std::int64_t{ranks - 1} * latency + RoundedUp(1, bytes, ranks, bandwidth));
  RC_ASSERT(Flat(CollectiveKind::kBroadcast, bytes, path).demand.uncontended() ==
            std::int64_t{ranks - 1} * latency + bytes / bandwidth);
}

TEST(RealTopologyTest, RingInsideANode) {
  // 8 ranks: 8 us + 14 hops of 3 us = 50 us. 2 x 7/8 x 1.2e9 / (0.75 x 400e9) = 7 ms.
  const calibration::LinkCosts links = RoundLinks();
  const CollectivePrice price =
      PriceModelledCollective(CollectiveKind::kAllReduce, Bytes(1'200'000'000), NvLinkPath(1),
                              &links, CollectiveAlgorithm::kRing);
  EXPECT_EQ(price.demand.latency, Microseconds(50));
  EXPECT_EQ(price.demand.work, Milliseconds(7));
  // On the raw 400 GB/s: 5.25 ms.
  EXPECT_EQ(price.bandwidth_bound, Microseconds(5250));
  EXPECT_DOUBLE_EQ(Share(price.demand, Resource::kScaleUp), 1);
  EXPECT_DOUBLE_EQ(Share(price.demand, Resource::kNetwork), 0);
}

TEST(RealTopologyTest, RingAcrossNodes) {
  // 16 ranks on 2 nodes: 15 hops a round, one of them between nodes: 14 x 3 us + 14 us + 2 us.
  // All-gather 8 + 58 = 66 us; all-reduce 8 + 116 = 124 us.
  // B = min(0.75 x 400, 0.5 x 200) = 100 GB/s: 15/16 x 1.6e9 / 100e9 = 15 ms, twice for all-reduce.
  const calibration::LinkCosts links = RoundLinks();
  const CollectivePrice all_gather =
      PriceModelledCollective(CollectiveKind::kAllGather, Bytes(1'600'000'000), NvLinkPath(2),
                              &links, CollectiveAlgorithm::kAuto);
  EXPECT_EQ(all_gather.demand.latency, Microseconds(66));
  EXPECT_EQ(all_gather.demand.work, Milliseconds(15));
  EXPECT_DOUBLE_EQ(Share(all_gather.demand, Resource::kNetwork), 1);
  EXPECT_DOUBLE_EQ(Share(all_gather.demand, Resource::kScaleUp), 100.0 / 300.0);
  const CollectivePrice all_reduce =
      PriceModelledCollective(CollectiveKind::kAllReduce, Bytes(1'600'000'000), NvLinkPath(2),
                              &links, CollectiveAlgorithm::kRing);
  EXPECT_EQ(all_reduce.demand.latency, Microseconds(124));
  EXPECT_EQ(all_reduce.demand.work, Milliseconds(30));
}

TEST(RealTopologyTest, WireLatencyOfASlowNodeCounts) {
  // A hop inside the node is never below the wire's 20 us: 8 + 14 x 20 us.
  const calibration::LinkCosts links = RoundLinks();
  CommunicationPath path = NvLinkPath(1);
  path.intra_latency = Microseconds(20);
  const CollectivePrice price = PriceModelledCollective(CollectiveKind::kAllReduce, Bytes(0), path,
                                                        &links, CollectiveAlgorithm::kRing);
  EXPECT_EQ(price.demand.uncontended(), Microseconds(288));
}

TEST(RealTopologyTest, PcieHasItsOwnConstants) {
  // 8 + 7 x 5 us; 7/8 x 0.8e9 / (0.25 x 400e9) = 7 ms.
  const calibration::LinkCosts links = RoundLinks();
  CommunicationPath path = NvLinkPath(1);
  path.intra_is_nvlink = false;
  const CollectivePrice price = PriceModelledCollective(
      CollectiveKind::kReduceScatter, Bytes(800'000'000), path, &links, CollectiveAlgorithm::kAuto);
  EXPECT_EQ(price.demand.latency, Microseconds(43));
  EXPECT_EQ(price.demand.work, Milliseconds(7));
}

TEST(RealTopologyTest, TreeChainsNodesAndHalvesBetweenThem) {
  // 9 nodes: floor(log2 9) = 3. 9 + 2 x (7 x 4 + 3 x (15 + 2)) = 167 us.
  // 2 x 0.46e9 / (0.92 x 100e9) = 10 ms.
  const calibration::LinkCosts links = RoundLinks();
  const CollectivePrice price =
      PriceModelledCollective(CollectiveKind::kAllReduce, Bytes(460'000'000), NvLinkPath(9), &links,
                              CollectiveAlgorithm::kTree);
  EXPECT_EQ(price.demand.latency, Microseconds(167));
  EXPECT_EQ(price.demand.work, Milliseconds(10));
  EXPECT_STREQ(price.algorithm, "tree");
}

TEST(RealTopologyTest, AutoTakesTheFaster) {
  // 64 nodes: the ring pays 2 x (448 x 3 + 63 x 16) us of latency, the tree 2 x (28 + 6 x 17);
  // the ring sends 2 x 511/512 S, the tree 2 S / 0.92.
  const calibration::LinkCosts links = RoundLinks();
  const auto algorithm = [&](Bytes bytes) {
    return std::string(PriceModelledCollective(CollectiveKind::kAllReduce, bytes, NvLinkPath(64),
                                               &links, CollectiveAlgorithm::kAuto)
                           .algorithm);
  };
  EXPECT_EQ(algorithm(MiB(1)), "tree");
  EXPECT_EQ(algorithm(GiB(8)), "ring");
}

TEST(RealTopologyTest, BroadcastIsARingWhateverIsAskedFor) {
  const calibration::LinkCosts links = RoundLinks();
  // 8 + 7 x 3 us; 3e9 / 300e9 = 10 ms.
  const CollectivePrice price =
      PriceModelledCollective(CollectiveKind::kBroadcast, Bytes(3'000'000'000), NvLinkPath(1),
                              &links, CollectiveAlgorithm::kTree);
  EXPECT_EQ(price.demand.latency, Microseconds(29));
  EXPECT_EQ(price.demand.work, Milliseconds(10));
  EXPECT_STREQ(price.algorithm, "ring");
}

RC_GTEST_PROP(RealTopologyTest, NothingBeatsTheBound, ()) {
  const auto bandwidth = rc::gen::map(rc::gen::inRange<std::int64_t>(1'000'000, 1'000'000'000'000),
                                      &Bandwidth::BytesPerSecond);
  const auto efficiency =
      rc::gen::map(rc::gen::inRange(1, 101), [](int percent) { return percent / 100.0; });
  CommunicationPath path;
  path.nodes = *rc::gen::inRange(1, 200);
  path.ranks_per_node = *rc::gen::inRange(path.nodes == 1 ? 2 : 1, 17);
  // Nodes may hold fewer ranks than the fullest one.
  path.ranks =
      *rc::gen::inRange(path.nodes + path.ranks_per_node - 1, path.nodes * path.ranks_per_node + 1);
  path.intra_is_nvlink = *rc::gen::arbitrary<bool>();
  if (path.ranks_per_node > 1) path.intra_bandwidth = *bandwidth;
  if (path.nodes > 1) path.inter_bandwidth = *bandwidth;
  path.ring_bandwidth = path.nodes == 1 ? path.intra_bandwidth
                        : path.ranks_per_node == 1
                            ? path.inter_bandwidth
                            : std::min(path.intra_bandwidth, path.inter_bandwidth);
  calibration::LinkCosts links;
  links.nvlink_efficiency = *efficiency;
  links.pcie_efficiency = *efficiency;
  links.network_efficiency = *efficiency;
  const auto kind = *rc::gen::elementOf(std::vector<CollectiveKind>(
      std::begin(kProgramCollectiveKinds), std::end(kProgramCollectiveKinds)));
  const auto algorithm = *rc::gen::element(CollectiveAlgorithm::kAuto, CollectiveAlgorithm::kRing,
                                           CollectiveAlgorithm::kTree);
  const Bytes bytes(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000));
  const CollectivePrice price = PriceModelledCollective(kind, bytes, path, &links, algorithm);
  RC_ASSERT(price.demand.uncontended() >= price.bandwidth_bound);
  // The bytes on the wire, in floating point, over the raw bandwidth.
  const double wire_seconds =
      price.wire_bytes_per_rank / static_cast<double>(path.ring_bandwidth.bytes_per_second());
  // A price is a whole number of picoseconds, and a day at most (kLongestTime).
  const double least = std::min(wire_seconds, kLongestTime.seconds());
  // On nodes with several ranks, a part of an all-to-all stays in the node and does not cross the
  // ring's slowest link.
  const bool all_cross =
      kind != CollectiveKind::kAllToAll || path.nodes == 1 || path.ranks_per_node == 1;
  RC_ASSERT(!all_cross || price.demand.uncontended().seconds() >= least * (1 - 1e-12) - 1e-12);
  RC_ASSERT(MeasurementBound(kind, bytes, path) <= price.demand.uncontended());
  for (double share : price.demand.share) RC_ASSERT(share >= 0 && share <= 1);
}

calibration::CollectiveTable Table(std::vector<std::pair<Bytes, Time>> points) {
  calibration::CollectiveTable table;
  table.collective = CollectiveKind::kAllReduce;
  table.ranks = 4;
  table.nodes = 4;
  table.points = std::move(points);
  return table;
}

TEST(TabulatedCollectiveTest, TakesTheTimeOfTheTable) {
  const CommunicationPath path = FlatPath(4, Time(), Bandwidth());
  const auto table = Table({{KiB(4), Microseconds(1800)}, {MiB(1), Microseconds(13100)}});
  const CollectivePrice price = PriceTabulatedCollective(KiB(64), path, nullptr, table);
  EXPECT_EQ(price.demand.uncontended(), Microseconds(7450));
  EXPECT_EQ(price.demand.latency, Microseconds(1800));
  EXPECT_EQ(price.demand.provenance, Provenance::kInterpolated);
  EXPECT_STREQ(price.algorithm, "table");
  EXPECT_DOUBLE_EQ(price.wire_bytes_per_rank, 1.5 * 65536);
  EXPECT_EQ(price.bandwidth_bound, Time());  // no link is known
  EXPECT_DOUBLE_EQ(Share(price.demand, Resource::kNetwork), 1);
  const CollectivePrice small = PriceTabulatedCollective(Bytes(8), path, nullptr, table);
  EXPECT_EQ(small.demand.latency, Microseconds(1800));
  EXPECT_EQ(small.demand.work, Time());
}

TEST(TabulatedCollectiveTest, SwitchesThatReduceMayHalveAnAllReduce) {
  // 8 H200 reached 275.58 GB/s of algorithm bandwidth, 482 GB/s of bus bandwidth, on 450 GB/s of
  // NVLink with in-switch reduction (stas00/ml-engineering 744d01e18b79): 16 GiB in 62.3 ms. A rank
  // must hand over 7/8 x 16 GiB: 33.4 ms. The ring would need 66.8 ms.
  CommunicationPath path = NvLinkPath(1);
  path.intra_bandwidth = path.ring_bandwidth = Bandwidth::GigabytesPerSecond(450);
  const Time measured = GiB(16) / Bandwidth::BytesPerSecond(275'580'000'000);
  EXPECT_LT(measured, BandwidthBound(CollectiveKind::kAllReduce, GiB(16), path));
  EXPECT_GT(measured, MeasurementBound(CollectiveKind::kAllReduce, GiB(16), path));
  EXPECT_EQ(MeasurementBound(CollectiveKind::kAllReduce, GiB(16), path),
            GiB(14) / Bandwidth::GigabytesPerSecond(450));
}

TEST(TabulatedCollectiveTest, BetweenNodesTheNicsOfANodeBoundIt) {
  // 2 nodes: each hands over half of the buffer through 200 GB/s.
  EXPECT_EQ(MeasurementBound(CollectiveKind::kAllGather, Bytes(400'000'000), NvLinkPath(2)),
            Milliseconds(1));
  EXPECT_EQ(MeasurementBound(CollectiveKind::kBroadcast, Bytes(400'000'000), NvLinkPath(2)),
            Milliseconds(2));
}

TEST(TabulatedCollectiveTest, PlainSwitchesDoNotReduce) {
  const CommunicationPath path = FlatPath(4, Time(), Bandwidth::GigabytesPerSecond(25));
  EXPECT_EQ(MeasurementBound(CollectiveKind::kAllReduce, Bytes(1'000'000'000), path),
            Milliseconds(60));
}

RC_GTEST_PROP(TabulatedCollectiveTest, PointsOnTheBoundKeepItEverywhere, ()) {
  // The tightest table there can be: every point exactly on the bound.
  const int ranks = *rc::gen::inRange(2, 1000);
  CommunicationPath path = FlatPath(
      ranks, Time(),
      Bandwidth::BytesPerSecond(*rc::gen::inRange<std::int64_t>(1'000'000, 1'000'000'000'000)));
  std::vector<std::pair<Bytes, Time>> points;
  Bytes size;
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    size += Bytes(*rc::gen::inRange<std::int64_t>(1, 1'000'000'000));
    points.emplace_back(size, MeasurementBound(CollectiveKind::kAllReduce, size, path));
  }
  const Bytes bytes(*rc::gen::inRange<std::int64_t>(0, 8'000'000'000));
  const CollectivePrice price =
      PriceTabulatedCollective(bytes, path, nullptr, Table(std::move(points)));
  RC_ASSERT(price.demand.uncontended() + Picoseconds(1) >= price.bandwidth_bound);
}

}  // namespace
}  // namespace stepcast::cost
