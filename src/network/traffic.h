#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/rates.h"
#include "src/base/time.h"
#include "src/collective/step_list.h"
#include "src/network/network.h"
#include "tl/expected.hpp"

// The steps of a collective on a network, for all network modes: connections between workers, with
// their links and rates.
namespace stepcast::network {

// A connection transmits the messages from one worker to another worker, one after another.
//
// A message of b bytes that is sent at time t has left at t + b / rate. The message's last byte
// arrives `latency` later. The next message of the connection starts after this message has left.
//
// Rate: a collective's connections divide a link's bandwidth in proportion to their bytes on the
// link, because the link then finishes earliest. Only connections that are used at the same time
// are considered (StepList::StageOf). A connection's rate is the minimum over the links of its
// path. In an uncontended collective, connections never wait for links, and the busiest link is
// always busy.
struct Connection {
  int from = 0;  // index of a worker
  int to = 0;
  int stage = 0;
  Time latency{};
  Bandwidth rate{};
  std::uint32_t first_use = 0;  // index in Traffic::shares()
  std::uint32_t uses = 0;
  // The numbers of messages and bytes in the first loop, which has the most bytes.
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;  // in all messages; a later loop has fewer bytes, by at most this number
};

class Traffic {
 public:
  // Computes the traffic of a list of steps. `places` has the place of each participant. The list
  // and the network must outlive the traffic. Fails if there is no route between two participants
  // that exchange messages.
  static tl::expected<Traffic, Fault> Make(const collective::StepList& list, const Network& network,
                                           std::span<const int> places);
  // Like the function above, with a router of the network, which caches routes.
  static tl::expected<Traffic, Fault> Make(const collective::StepList& list, const Network& network,
                                           std::span<const int> places, Network::Router& router);

  const collective::StepList& list() const { return *list_; }
  const Network& network() const { return *network_; }
  int PlaceOf(int participant) const { return places_[static_cast<std::size_t>(participant)]; }

  // Returns the same traffic with the rate of every connection multiplied by `part` (0 < part <=
  // 1), for senders that are slower than their links.
  Traffic Slowed(double part) const;

  // Returns all connections, ordered by sending worker, then by receiving worker.
  std::span<const Connection> connections() const { return connections_; }
  // Returns the connections that start at a worker.
  std::span<const Connection> From(int worker) const {
    const auto begin = first_of_[static_cast<std::size_t>(worker)];
    return {connections_.data() + begin, first_of_[static_cast<std::size_t>(worker) + 1] - begin};
  }
  // Returns the index of a connection in connections(). The connection must exist.
  std::uint32_t Find(int from, int to) const;
  std::span<const Share> SharesOf(const Connection& connection) const {
    return {shares_.data() + connection.first_use, connection.uses};
  }

  // Returns a lower bound for the time in every network mode: the longest time that a link needs
  // for the collective's bytes.
  Time bandwidth_bound() const { return bandwidth_bound_; }
  // Returns the sum of bandwidth_bound over all stages, in which the links are busy.
  Time transfer() const { return transfer_; }

  // The total load of a link.
  struct Load {
    int link = 0;
    double bytes = 0;
  };
  const std::vector<Load>& loads() const { return loads_; }  // indexed by link, without idle links

 private:
  Traffic(const collective::StepList& list, const Network& network, std::span<const int> places);
  void Connect();
  tl::expected<void, Fault> Route(Network::Router& router);
  void Divide(LinkSet& crossed);

  const collective::StepList* list_;
  const Network* network_;
  std::vector<int> places_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> first_of_;  // indexed by worker
  std::vector<Share> shares_;
  Time bandwidth_bound_{};
  Time transfer_{};
  std::vector<Load> loads_;
};

}  // namespace stepcast::network
