#include "src/network/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "tests/examples/sample_networks.h"

namespace stepcast::network {
namespace {

constexpr Bandwidth kWide = Bandwidth::GigabytesPerSecond(50);

std::vector<std::string> MessagesOf(Network::Description description) {
  const auto network = Network::Make(std::move(description));
  std::vector<std::string> messages;
  if (!network) {
    for (const Fault& fault : network.error()) messages.push_back(fault.message);
  }
  return messages;
}

TEST(NetworkTest, RefusesLinksThatCarryNothing) {
  Network::Description description;
  const int a = description.AddDevice("a", false);
  const int b = description.AddDevice("b", false);
  description.AddLink({.from = a, .to = b, .bandwidth = kWide});
  description.AddLink({.from = b, .to = a, .latency = Picoseconds(-1)});
  description.AddPlace({a});
  description.AddPlace({b});
  EXPECT_EQ(MessagesOf(description),
            std::vector<std::string>({"a link has no bandwidth: b to a: 0 B/s",
                                      "the latency of link b to a is negative: -1 ps"}));
}

TEST(NetworkTest, RefusesRanksWithoutALink) {
  Network::Description description;
  const int a = description.AddDevice("a", false);
  const int hub = description.AddDevice("hub", true);
  const int alone = description.AddDevice("alone", false);
  description.AddBothWays({.from = a, .to = hub, .bandwidth = kWide});
  description.AddPlace({a});
  description.AddPlace({alone});
  EXPECT_EQ(MessagesOf(description),
            std::vector<std::string>({"no link connects a participant: alone"}));
}

// a and b on one switch, c and d on another; then a and b joined only through c, which does not
// forward.
TEST(NetworkTest, RefusesATopologyInParts) {
  Network::Description description;
  std::vector<int> ranks;
  for (const char* name : {"a", "b", "c", "d"}) ranks.push_back(description.AddDevice(name, false));
  const int left = description.AddDevice("left", true);
  const int right = description.AddDevice("right", true);
  for (int i = 0; i < 4; ++i) {
    const int rank = ranks[static_cast<std::size_t>(i)];
    description.AddBothWays({.from = rank, .to = i < 2 ? left : right, .bandwidth = kWide});
    description.AddPlace({rank});
  }
  EXPECT_EQ(MessagesOf(description),
            std::vector<std::string>({"the topology has unconnected parts: no route leads in both "
                                      "directions between a and c, d"}));
  description.AddLink({.from = left, .to = right, .bandwidth = kWide});
  EXPECT_EQ(MessagesOf(description).size(), 1U) << "one way alone does not join them";
  description.AddLink({.from = right, .to = left, .bandwidth = kWide});
  EXPECT_EQ(MessagesOf(description), std::vector<std::string>());
}

TEST(NetworkTest, RanksDoNotForward) {
  Network::Description description;
  std::vector<int> ranks;
  for (const char* name : {"a", "b", "c"}) {
    ranks.push_back(description.AddDevice(name, false));
    description.AddPlace({ranks.back()});
  }
  description.AddBothWays({.from = ranks[0], .to = ranks[1], .bandwidth = kWide});
  description.AddBothWays({.from = ranks[1], .to = ranks[2], .bandwidth = kWide});
  EXPECT_EQ(MessagesOf(description).size(), 1U);
}

// Two planes of 30 and 20 GB/s between two GPUs: three fifths of a transfer use one, two fifths the
// other. All links of the route have a latency of 1 us.
TEST(RouterTest, DividesAmongPlanes) {
  Network::Description description;
  const int a = description.AddDevice("a", false);
  const int b = description.AddDevice("b", false);
  std::vector<int> planes;
  for (const int bandwidth : {30, 20}) {
    planes.push_back(description.AddDevice("plane", true));
    for (const int gpu : {a, b}) {
      description.AddBothWays({.from = gpu,
                               .to = planes.back(),
                               .latency = Microseconds(1),
                               .bandwidth = Bandwidth::GigabytesPerSecond(bandwidth)});
    }
  }
  description.AddPlace({a});
  description.AddPlace({b});
  const int both_planes = description.AddPlace(planes);
  const Network network = Network::Make(description).value();
  Network::Router router(network);

  const Path path = router.Find(0, 1).value();
  EXPECT_EQ(path.latency, Microseconds(2));
  std::map<std::string, double> parts;
  for (const Share& share : path.shares) {
    parts[network.LinkName(share.link) +
          std::to_string(network.link(share.link).bandwidth.gigabytes_per_second())] += share.part;
  }
  EXPECT_EQ(parts.size(), 4U);
  for (const auto& [link, part] : parts) {
    EXPECT_DOUBLE_EQ(part, link.find("30") != std::string::npos ? 0.6 : 0.4) << link;
  }
  // To the switches themselves, as a reduction inside them needs it.
  const Path up = router.Find(0, both_planes).value();
  EXPECT_EQ(up.latency, Microseconds(1));
  ASSERT_EQ(up.shares.size(), 2U);
  EXPECT_DOUBLE_EQ(up.shares[0].part + up.shares[1].part, 1);
  EXPECT_TRUE(router.Find(0, 0).value().shares.empty());
}

TEST(RouterTest, TakesTheShortestButPrefersNvLink) {
  Network::Description description;
  const int a = description.AddDevice("a", false);
  const int b = description.AddDevice("b", false);
  const int near = description.AddDevice("near", true);
  const int far = description.AddDevice("far", true);
  for (const int gpu : {a, b}) {
    description.AddBothWays(
        {.from = gpu, .to = near, .latency = Nanoseconds(100), .bandwidth = kWide});
    description.AddBothWays(
        {.from = gpu, .to = far, .latency = Nanoseconds(700), .bandwidth = kWide});
    description.AddPlace({gpu});
  }
  const Network plain = Network::Make(description).value();
  EXPECT_EQ(Network::Router(plain).Find(0, 1)->latency, Nanoseconds(200));
  description.AddBothWays(
      {.from = a, .to = b, .latency = Nanoseconds(500), .bandwidth = kWide, .nvlink = true});
  const Network nvlink = Network::Make(description).value();
  EXPECT_EQ(Network::Router(nvlink).Find(0, 1)->latency, Nanoseconds(500));
}

// A GPU relays between two that have NVLinks to it and none to each other, in preference to PCIe.
// Of two candidates, the one with the wider narrowest hop relays, even if its latency is longer. A
// GPU two hops away is not used.
TEST(RouterTest, OneGpuRelaysOverNvlinks) {
  Network::Description description;
  const int pcie = description.AddDevice("pcie", true);
  std::vector<int> gpus;
  for (const char* name : {"a", "b", "narrow", "wide", "far"}) {
    gpus.push_back(description.AddDevice(name, false));
    description.AddPlace({gpus.back()});
    description.AddBothWays(
        {.from = gpus.back(), .to = pcie, .latency = Nanoseconds(100), .bandwidth = kWide});
  }
  const auto join = [&](int one, int other, int gigabytes, int nanoseconds) {
    description.AddBothWays({.from = gpus[static_cast<std::size_t>(one)],
                             .to = gpus[static_cast<std::size_t>(other)],
                             .latency = Nanoseconds(nanoseconds),
                             .bandwidth = Bandwidth::GigabytesPerSecond(gigabytes),
                             .nvlink = true});
  };
  join(0, 2, 50, 300);
  join(2, 1, 20, 300);
  join(0, 3, 25, 500);
  join(3, 1, 25, 500);
  join(1, 4, 25, 500);
  const Network network = Network::Make(description).value();
  Network::Router router(network);
  const Path relayed = router.Find(0, 1).value();
  EXPECT_EQ(relayed.latency, Nanoseconds(1000));
  ASSERT_EQ(relayed.shares.size(), 2U);
  EXPECT_EQ(network.LinkName(relayed.shares[0].link), "a to wide");
  EXPECT_EQ(network.LinkName(relayed.shares[1].link), "wide to b");
  EXPECT_EQ(relayed.shares[0].part, 1);
  EXPECT_EQ(router.Find(0, 4)->latency, Nanoseconds(200));
}

// Another node's switch is linked only to that node's GPUs, which do not forward.
TEST(RouterTest, SaysWhereNothingLeads) {
  const SampleNetwork sample = MakeSampleNetwork(2, 2, 0);
  Network::Router router(sample.network);
  EXPECT_TRUE(router.Find(0, 4).has_value());
  const auto nothing = router.Find(0, 5);
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().message, "there is no route from node0/gpu0 to node1/switch");
}

// A random cluster: nodes of GPUs behind an inner switch and of cards, the cards' leaves, and
// spines. In two of three cases all nodes are alike, so that routes are copies.
struct AnyCluster {
  std::vector<Link> links;
  std::vector<int> node_of;    // [device]
  std::vector<bool> forwards;  // [device]
  std::vector<int> gpus;

  int Add(Network::Description& description, bool device_forwards, int node) {
    node_of.push_back(node);
    forwards.push_back(device_forwards);
    return description.AddDevice("d", device_forwards, node);
  }
  void Join(Network::Description& description, int a, int b, Time latency) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      links.push_back({.from = from, .to = to, .latency = latency, .bandwidth = kWide});
      description.AddLink(links.back());
    }
  }

  Network::Description Draw() {
    Network::Description description;
    const auto latency = [] { return Microseconds(*rc::gen::inRange(0, 4)); };
    const auto leaves = *rc::gen::inRange(1, 5), spines = *rc::gen::inRange(1, 4);
    std::vector<int> leaf, spine;
    for (int i = 0; i < leaves; ++i) leaf.push_back(Add(description, true, -1));
    for (int i = 0; i < spines; ++i) spine.push_back(Add(description, true, -1));
    for (const int a : leaf) {
      for (const int b : spine) {
        if (b == spine.front() || *rc::gen::arbitrary<bool>()) Join(description, a, b, latency());
      }
    }
    const auto nodes = *rc::gen::inRange(2, 6), own = *rc::gen::inRange(1, 3),
               cards = *rc::gen::inRange(1, 4);
    const bool alike = *rc::gen::inRange(0, 3) > 0;
    std::vector<Time> latencies;
    for (int node = 0; node < nodes; ++node) {
      std::size_t at = 0;
      const auto next = [&] {
        if (at == latencies.size()) latencies.push_back(latency());
        return alike ? latencies[at++] : latency();
      };
      const int inner = Add(description, true, node);
      std::vector<int> card;
      for (int i = 0; i < cards; ++i) {
        card.push_back(Add(description, true, node));
        Join(description, card.back(), inner, next());
        Join(description, card.back(), *rc::gen::elementOf(leaf), next());
      }
      for (int i = 0; i < own; ++i) {
        gpus.push_back(Add(description, false, node));
        Join(description, gpus.back(), inner, next());
        Join(description, gpus.back(), card[static_cast<std::size_t>(i) % card.size()], next());
        description.AddPlace({gpus.back()});
      }
    }
    return description;
  }
};

// Latency inside nodes, total latency, and links crossed.
using Length = std::tuple<Time, Time, int>;

// Lengths of the shortest routes from a device, by relaxing all links until nothing improves.
std::vector<std::optional<Length>> LengthsFrom(const AnyCluster& cluster, int source, int node_from,
                                               int node_to, bool backwards) {
  std::vector<std::optional<Length>> lengths(cluster.node_of.size());
  lengths[static_cast<std::size_t>(source)] = Length();
  for (bool better = true; better;) {
    better = false;
    for (const Link& link : cluster.links) {
      const auto from = static_cast<std::size_t>(backwards ? link.to : link.from);
      const auto to = static_cast<std::size_t>(backwards ? link.from : link.to);
      const int node = cluster.node_of[to];
      if (!lengths[from] || (static_cast<int>(from) != source && !cluster.forwards[from]) ||
          (node >= 0 && node != node_from && node != node_to)) {
        continue;
      }
      const auto [inside, latency, hops] = *lengths[from];
      const bool counts = node_from != node_to && node >= 0 && node == cluster.node_of[from];
      const Length there(inside + (counts ? link.latency : Time()), latency + link.latency,
                         hops + 1);
      if (lengths[to] && *lengths[to] <= there) continue;
      lengths[to] = there;
      better = true;
    }
  }
  return lengths;
}

// A transfer uses all links of the shortest routes and no others.
RC_GTEST_PROP(RouterProperty, TakesAllShortestRoutes, ()) {
  AnyCluster cluster;
  const Network network = Network::Make(cluster.Draw()).value();
  Network::Router router(network);
  for (int from = 0; from < network.places(); ++from) {
    for (int to = 0; to < network.places(); ++to) {
      if (from == to) continue;
      const int a = cluster.gpus[static_cast<std::size_t>(from)];
      const int b = cluster.gpus[static_cast<std::size_t>(to)];
      const int node_a = cluster.node_of[static_cast<std::size_t>(a)];
      const int node_b = cluster.node_of[static_cast<std::size_t>(b)];
      const auto there = LengthsFrom(cluster, a, node_a, node_b, false);
      const auto back = LengthsFrom(cluster, b, node_a, node_b, true);
      const Length nearest = there[static_cast<std::size_t>(b)].value();
      const Path path = router.Find(from, to).value();
      RC_ASSERT(path.latency == std::get<1>(nearest));
      std::set<int> expected, taken;
      for (std::size_t id = 0; id < cluster.links.size(); ++id) {
        const Link& link = cluster.links[id];
        const auto before = there[static_cast<std::size_t>(link.from)];
        const auto behind = back[static_cast<std::size_t>(link.to)];
        const auto end = there[static_cast<std::size_t>(link.to)];
        if (!before || !behind || !end || link.from == b || link.to == a) continue;
        if ((link.from != a && !cluster.forwards[static_cast<std::size_t>(link.from)]) ||
            (link.to != b && !cluster.forwards[static_cast<std::size_t>(link.to)])) {
          continue;
        }
        const int node = cluster.node_of[static_cast<std::size_t>(link.to)];
        const bool inside = node_a != node_b && node >= 0 &&
                            node == cluster.node_of[static_cast<std::size_t>(link.from)];
        const Length by_it(
            std::get<0>(*before) + std::get<0>(*behind) + (inside ? link.latency : Time()),
            std::get<1>(*before) + std::get<1>(*behind) + link.latency,
            std::get<2>(*before) + std::get<2>(*behind) + 1);
        if (by_it == nearest) expected.insert(static_cast<int>(id));
      }
      double arriving = 0;
      for (const Share& share : path.shares) {
        taken.insert(share.link);
        if (network.link(share.link).to == b) arriving += share.part;
      }
      RC_ASSERT(taken == expected);
      RC_ASSERT(std::abs(arriving - 1) < 1e-9);
    }
  }
}

RC_GTEST_PROP(LinkSet, NumbersAreTheOrderOfFirstArrival, ()) {
  const int links = *rc::gen::inRange(1, 20);
  LinkSet set(links);
  // Emptied several times: earlier contents have no effect.
  const int times = *rc::gen::inRange(1, 4);
  for (int time = 0; time < times; ++time) {
    set.Clear();
    std::vector<int> came;
    for (const int link : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, links))) {
      const auto known = std::find(came.begin(), came.end(), link);
      const auto number = static_cast<std::uint32_t>(known - came.begin());
      if (known == came.end()) came.push_back(link);
      RC_ASSERT(set.Add(link) == number);
    }
    RC_ASSERT(set.links() == came);
  }
}

}  // namespace

}  // namespace stepcast::network
