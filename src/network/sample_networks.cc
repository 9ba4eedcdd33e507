#include "src/network/sample_networks.h"

#include <random>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"

namespace stepcast::network {

std::vector<int> SampleNetwork::PlacesOf(const collective::StepList& list) const {
  std::vector<int> places;
  for (int rank = 0; rank < list.ranks(); ++rank) places.push_back(rank);
  for (int i = 0; i < list.switches(); ++i) {
    const bool topmost = list.algorithm() == "collnet" || (list.switches() == 1 && nodes > 1);
    places.push_back(topmost ? ranks + nodes : ranks + i);
  }
  return places;
}

SampleNetwork MakeSampleNetwork(int nodes, int ranks_per_node, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](Link link) {
    if (seed == 0) {
      link.latency = Microseconds(1);
      link.bandwidth = Bandwidth::GigabytesPerSecond(10);
    } else {
      // Latency 0.1 to 10 us, bandwidth 1 to 400 GB/s.
      link.latency = Nanoseconds(std::uniform_int_distribution<std::int64_t>(100, 10'000)(random));
      link.bandwidth = Bandwidth::GigabytesPerSecond(
          std::uniform_int_distribution<std::int64_t>(1, 400)(random));
    }
    return link;
  };
  Network::Description description;
  const auto join = [&](int from, int to, bool nvlink) {
    description.AddLink(draw({.from = from, .to = to, .nvlink = nvlink}));
    description.AddLink(draw({.from = to, .to = from, .nvlink = nvlink}));
  };
  std::vector<int> ranks;
  std::vector<int> node_switches;
  std::vector<int> rails;
  const int top = description.AddDevice("top", true);
  for (int place = 0; place < ranks_per_node; ++place) {
    rails.push_back(description.AddDevice(fmt::format("rail{}", place), true));
    join(rails.back(), top, false);
  }
  for (int node = 0; node < nodes; ++node) {
    node_switches.push_back(description.AddDevice(fmt::format("node{}/switch", node), true, node));
    for (int place = 0; place < ranks_per_node; ++place) {
      ranks.push_back(description.AddDevice(fmt::format("node{}/gpu{}", node, place), false, node));
      join(ranks.back(), node_switches.back(), true);
      join(ranks.back(), rails[static_cast<std::size_t>(place)], false);
    }
  }
  for (const int rank : ranks) description.AddPlace({rank});
  for (const int node_switch : node_switches) description.AddPlace({node_switch});
  description.AddPlace({top});
  auto network = Network::Make(std::move(description));
  STEPCAST_CHECK(network.has_value(), "the sample must be one network");
  return {*std::move(network), nodes * ranks_per_node, nodes};
}

Network MakeStar(const std::vector<Time>& latencies, const std::vector<Bandwidth>& bandwidths) {
  Network::Description description;
  const int hub = description.AddDevice("switch", true);
  for (std::size_t rank = 0; rank < latencies.size(); ++rank) {
    const int device = description.AddDevice(fmt::format("rank{}", rank), false);
    description.AddLink({device, hub, latencies[rank], bandwidths[rank]});
    description.AddLink({hub, device, Time(), bandwidths[rank]});
    description.AddPlace({device});
  }
  auto network = Network::Make(std::move(description));
  STEPCAST_CHECK(network.has_value(), "a star must be one network");
  return *std::move(network);
}

}  // namespace stepcast::network
