#include "src/network/traffic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/collective/ring.h"

namespace stepcast::network {
namespace {

using collective::kNobody;
using collective::Ring;
using collective::Step;
using collective::StepList;

// The weight of a connection; those of an empty collective share links evenly.
double WeightOf(const Connection& connection) {
  return static_cast<double>(std::max<std::int64_t>(1, connection.bytes));
}

}  // namespace

Traffic::Traffic(const StepList& list, const Network& network, std::span<const int> places)
    : list_(&list), network_(&network), places_(places.begin(), places.end()) {
  STEPCAST_CHECK(static_cast<int>(places.size()) == list.participants(),
                 "every participant must be placed on a device");
  Connect();
}

tl::expected<Traffic, Fault> Traffic::Make(const StepList& list, const Network& network,
                                           std::span<const int> places) {
  Network::Router router(network);
  return Make(list, network, places, router);
}

tl::expected<Traffic, Fault> Traffic::Make(const StepList& list, const Network& network,
                                           std::span<const int> places, Network::Router& router) {
  Traffic traffic(list, network, places);
  if (auto routed = traffic.Route(router); !routed)
    return tl::unexpected(std::move(routed.error()));
  traffic.Divide(router.NoLinks());
  return traffic;
}

Traffic Traffic::Slowed(double part) const {
  STEPCAST_CHECK(part > 0 && part <= 1, "connections must not be faster than their links");
  Traffic slowed = *this;
  for (Connection& connection : slowed.connections_) {
    const double rate = static_cast<double>(connection.rate.bytes_per_second()) * part;
    connection.rate = Bandwidth::BytesPerSecond(std::max<std::int64_t>(1, std::llround(rate)));
  }
  return slowed;
}

std::uint32_t Traffic::Find(int from, int to) const {
  const std::span<const Connection> candidates = From(from);
  const auto found = std::lower_bound(
      candidates.begin(), candidates.end(), to,
      [](const Connection& connection, int worker) { return connection.to < worker; });
  STEPCAST_CHECK(found != candidates.end() && found->to == to,
                 "two workers that exchange messages must have a connection");
  return first_of_[static_cast<std::size_t>(from)] +
         static_cast<std::uint32_t>(found - candidates.begin());
}

void Traffic::Connect() {
  const auto* ring = dynamic_cast<const Ring*>(list_);
  first_of_.reserve(static_cast<std::size_t>(list_->workers()) + 1);
  connections_.reserve(static_cast<std::size_t>(list_->workers()));
  for (int worker = 0; worker < list_->workers(); ++worker) {
    first_of_.push_back(static_cast<std::uint32_t>(connections_.size()));
    if (ring != nullptr) {
      // A ring has as many steps as ranks. All steps send to one neighbor, so none is examined.
      if (ring->ranks() == 1) continue;
      const std::int64_t messages = ring->sends_per_chunk() * ring->slices();
      const std::int64_t largest = list_->partition().Size(0, 0);
      connections_.push_back({.from = worker,
                              .to = ring->NextOf(worker),
                              .messages = messages,
                              .bytes = messages * largest,
                              .blocks = messages});
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(connections_.size());
    for (std::int64_t i = 0; i < list_->StepsPerLoop(worker); ++i) {
      const Step step = list_->At(worker, i);
      if (step.send_to == kNobody) continue;
      // Sends to the same receiver are consecutive, as in the common case of a single receiver.
      if (static_cast<std::ptrdiff_t>(connections_.size()) == first ||
          connections_.back().to != step.send_to) {
        connections_.push_back(
            {.from = worker, .to = step.send_to, .stage = list_->StageOf(worker, step.send_to)});
      }
      connections_.back().messages += 1;
      connections_.back().bytes += step.bytes;
      connections_.back().blocks += step.chunk.count;
    }
    std::sort(connections_.begin() + first, connections_.end(),
              [](const Connection& a, const Connection& b) { return a.to < b.to; });
    auto last = first;
    for (auto i = first; i < static_cast<std::ptrdiff_t>(connections_.size()); ++i) {
      Connection& connection = connections_[static_cast<std::size_t>(i)];
      Connection& kept = connections_[static_cast<std::size_t>(last)];
      if (i == first) continue;
      if (kept.to == connection.to) {
        kept.messages += connection.messages;
        kept.bytes += connection.bytes;
        kept.blocks += connection.blocks;
      } else {
        connections_[static_cast<std::size_t>(++last)] = connection;
      }
    }
    if (static_cast<std::ptrdiff_t>(connections_.size()) > first) {
      connections_.resize(static_cast<std::size_t>(last + 1));
    }
  }
  first_of_.push_back(static_cast<std::uint32_t>(connections_.size()));
}

tl::expected<void, Fault> Traffic::Route(Network::Router& router) {
  shares_.reserve(2 * connections_.size());
  for (Connection& connection : connections_) {
    const auto path = router.Find(PlaceOf(list_->ParticipantOf(connection.from)),
                                  PlaceOf(list_->ParticipantOf(connection.to)));
    if (!path) return tl::unexpected(path.error());
    connection.latency = path->latency;
    connection.first_use = static_cast<std::uint32_t>(shares_.size());
    connection.uses = static_cast<std::uint32_t>(path->shares.size());
    shares_.insert(shares_.end(), path->shares.begin(), path->shares.end());
  }
  return {};
}

void Traffic::Divide(LinkSet& crossed) {
  std::vector<std::uint32_t> link_of;  // of each share: its number among those crossed
  link_of.reserve(shares_.size());
  for (const Share& share : shares_) link_of.push_back(crossed.Add(share.link));
  const std::vector<int>& links = crossed.links();
  std::vector<double> weight(links.size());  // of a stage
  std::vector<double> bytes(links.size());   // of a stage, a lower bound
  std::vector<double> all_bytes(links.size());
  std::vector<double> load(links.size());
  int stages = 1;
  for (const Connection& connection : connections_) stages = std::max(stages, connection.stage + 1);
  for (int stage = 0; stage < stages; ++stage) {
    std::fill(weight.begin(), weight.end(), 0);
    std::fill(bytes.begin(), bytes.end(), 0);
    for (const Connection& connection : connections_) {
      if (connection.stage != stage) continue;
      const auto least = std::max<std::int64_t>(0, connection.bytes - connection.blocks);
      for (std::uint32_t use = 0; use < connection.uses; ++use) {
        const double part = shares_[connection.first_use + use].part;
        const std::uint32_t link = link_of[connection.first_use + use];
        weight[link] += part * WeightOf(connection);
        bytes[link] += part * static_cast<double>(least) * list_->loops();
        all_bytes[link] += part * static_cast<double>(least) * list_->loops();
        load[link] += part * static_cast<double>(connection.bytes) * list_->loops();
      }
    }
    double longest = 0;
    for (Connection& connection : connections_) {
      if (connection.stage != stage) continue;
      double rate = std::numeric_limits<double>::infinity();
      for (std::uint32_t use = 0; use < connection.uses; ++use) {
        const Share& share = shares_[connection.first_use + use];
        const std::uint32_t link = link_of[connection.first_use + use];
        const auto bandwidth =
            static_cast<double>(network_->link(share.link).bandwidth.bytes_per_second());
        // A connection that uses the link alone has the full bandwidth until its last byte.
        const double own = share.part * WeightOf(connection);
        rate =
            std::min(rate, own == weight[link] ? bandwidth / share.part
                                               : bandwidth * WeightOf(connection) / weight[link]);
        longest = std::max(longest, bytes[link] / bandwidth);
      }
      constexpr double kMost = 1e18;  // of places on one device: nothing is crossed
      connection.rate = Bandwidth::BytesPerSecond(
          std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(rate, kMost))));
    }
    transfer_ += Time::FromPicoseconds(static_cast<std::int64_t>(longest * 1e12));
  }
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto bandwidth =
        static_cast<double>(network_->link(links[i]).bandwidth.bytes_per_second());
    bandwidth_bound_ =
        std::max(bandwidth_bound_,
                 Time::FromPicoseconds(static_cast<std::int64_t>(all_bytes[i] / bandwidth * 1e12)));
    if (load[i] > 0) loads_.push_back({links[i], load[i]});
  }
  std::sort(loads_.begin(), loads_.end(),
            [](const Load& a, const Load& b) { return a.link < b.link; });
}

}  // namespace stepcast::network
