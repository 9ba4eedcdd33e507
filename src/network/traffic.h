#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/collective/step_list.h"
#include "src/network/link_set.h"
#include "src/network/network.h"
#include "tl/expected.hpp"

// A collective's steps on a network: which ranks are connected, over which links, and how fast. All
// fidelities read this.
namespace stepcast::network {

// A connection: carries the messages of one worker to another, one after the other.
//
//   A message of b bytes that is sent at t takes b / rate to leave, and its last byte arrives
//   another `latency` later. The next message of the connection leaves after it.
//
// Rate: the connections of a collective divide every link among themselves in proportion to the
// bytes that each has to carry over it (of those in use at the same time, StepList::StageOf), for
// then the link has carried all of it soonest. A connection has the least that any link of its path
// leaves to it. So a collective alone on the network never waits for itself, and its busiest link
// is busy throughout.
struct Connection {
  int from = 0;  // workers
  int to = 0;
  int stage = 0;
  Time latency{};
  Bandwidth rate{};
  std::uint32_t first_use = 0;  // in Traffic::shares()
  std::uint32_t uses = 0;
  // Of one loop; its first, which is the largest.
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;  // in all messages: later loops have at most as many bytes less
};

class Traffic {
 public:
  // `places`: [participant]. The list and the network must outlive it. Fails where two participants
  // that exchange messages have no route.
  static tl::expected<Traffic, Fault> Make(const collective::StepList& list, const Network& network,
                                           std::span<const int> places);
  // With the network's router, which knows the ways again that it has found before.
  static tl::expected<Traffic, Fault> Make(const collective::StepList& list, const Network& network,
                                           std::span<const int> places, Network::Router& router);

  const collective::StepList& list() const { return *list_; }
  const Network& network() const { return *network_; }
  int PlaceOf(int participant) const { return places_[static_cast<std::size_t>(participant)]; }

  // The same traffic with every connection at `part` of its rate, 0 < part <= 1: what sends does
  // not keep up with the links.
  Traffic Slowed(double part) const;

  // Ordered by the sending worker, then by the receiving one.
  std::span<const Connection> connections() const { return connections_; }
  // Those from a worker.
  std::span<const Connection> From(int worker) const {
    const auto begin = first_of_[static_cast<std::size_t>(worker)];
    return {connections_.data() + begin, first_of_[static_cast<std::size_t>(worker) + 1] - begin};
  }
  // Its number in connections(). Requires that it exists.
  std::uint32_t Find(int from, int to) const;
  std::span<const Share> SharesOf(const Connection& connection) const {
    return {shares_.data() + connection.first_use, connection.uses};
  }

  // No fidelity is faster: the longest time that a link takes to carry what the collective puts on
  // it. Counts no byte that is not sent.
  Time bandwidth_bound() const { return bandwidth_bound_; }
  // The same for each stage by itself, added up: what the links are busy with.
  Time transfer() const { return transfer_; }

  // The total load of a link.
  struct Load {
    int link = 0;
    double bytes = 0;
  };
  const std::vector<Load>& loads() const { return loads_; }  // by link, without those that idle

 private:
  Traffic(const collective::StepList& list, const Network& network, std::span<const int> places);
  void Connect();
  tl::expected<void, Fault> Route(Network::Router& router);
  void Divide(LinkSet& crossed);

  const collective::StepList* list_;
  const Network* network_;
  std::vector<int> places_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> first_of_;  // [worker]
  std::vector<Share> shares_;
  Time bandwidth_bound_{};
  Time transfer_{};
  std::vector<Load> loads_;
};

}  // namespace stepcast::network
