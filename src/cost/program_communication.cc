#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/all_to_all_loads.h"
#include "src/base/quantity.h"
#include "src/calibration/profiles.h"
#include "src/cost/collective_price.h"
#include "src/cost/copy_price.h"
#include "src/cost/program_price.h"

namespace stepcast::cost {
namespace {

using program::Index;
using topology::CommunicationPath;

class CommunicationPricer {
 public:
  CommunicationPricer(Pricing& pricing, PricedMachine& machine, CopyPricer& copies)
      : pricing_(pricing),
        machine_(machine),
        copies_(copies),
        stage_ranks_(
            std::max(1, pricing.scenario.cluster->devices() /
                            static_cast<int>(pricing.scenario.plan.parallelism.pipeline))) {}

  void PriceCollectives() {
    pricing_.prices.collectives.clear();
    pricing_.prices.collectives.reserve(pricing_.program.collectives.size());
    for (const program::Collective& collective : pricing_.program.collectives) {
      const PricedMachine::Group& group = GroupOf(collective.communicator);
      const CollectivePrice* known = machine_.Known(collective, group);
      CollectivePrice price = known != nullptr ? *known : PriceOneCollective(collective, group);
      if (known == nullptr) {
        if (Endless(price.demand)) {
          pricing_.ReportEndless(
              fmt::format("{} over {} ranks", Name(collective.kind), group.path.ranks));
        }
        if (pricing_.diagnostics.empty()) machine_.Remember(collective, group, price);
      }
      TakeMultiprocessors(collective.multiprocessors, 1, price.demand, price.channels);
      pricing_.prices.collectives.push_back(price);
    }
  }

  void PriceExchanges() {
    pricing_.prices.exchanges.clear();
    for (const program::Exchange& exchange : pricing_.program.exchanges) {
      std::vector<MessagePrice>& messages = pricing_.prices.exchanges.emplace_back();
      const program::ProcessGroup& group =
          pricing_.program.groups[pricing_.program.communicators[exchange.communicator].group];
      for (const program::Message& message : exchange.messages) {
        const auto [from, to] = EndsOf(exchange, message, group);
        const bool sends = message.direction == program::MessageDirection::kSend;
        messages.push_back(PriceMessage(exchange, message.bytes, sends, group, from, to));
      }
    }
  }

  // Sibling groups communicate at once: the collectives take as long as shared links need for all
  // of them, if that is longer.
  void CountSharedLinks() {
    links_count_ = false;
    const std::vector<OnLinks> all = AllOnLinks();
    if (!links_count_) return;
    std::vector<SharedLinks::Use> uses;
    std::vector<std::size_t> use_of;
    for (const OnLinks& one : all) {
      use_of.push_back(
          static_cast<std::size_t>(std::find(uses.begin(), uses.end(), one.use) - uses.begin()));
      if (use_of.back() == uses.size()) uses.push_back(one.use);
    }
    const auto busy = machine_.shared_links.Of(uses);
    if (!busy) {
      pricing_.Report("cost.no-network", pricing_.scenario.cluster_location, busy.error().message,
                      busy.error().hint);
      return;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      Demand& demand = *all[i].demand;
      const SharedLinks::Busy& links = (*busy)[use_of[i]];
      // A measurement on these links, with no other group on them as here, may have used them
      // differently.
      const bool known = !std::get<const SiblingLinks*>(all[i].use)->shared() &&
                         demand.provenance < Provenance::kTransferred;
      for (std::size_t link = 0; link < links.size(); ++link) {
        double& share = demand.share[static_cast<std::size_t>(Resource::kNodeLinks) + link];
        share = links[link] * all[i].bytes / demand.work.seconds();
        // Ignore rounding errors: the links are not the bottleneck.
        if (known || share < 1 + 1e-6) share = std::min(share, 1.0);
        if (share > 1) demand.provenance = Provenance::kModelled;
      }
      if (Endless(demand)) pricing_.ReportEndless(all[i].name);
    }
  }

 private:
  const PricedMachine::Group& GroupOf(Index communicator) {
    if (groups_.empty()) groups_.resize(pricing_.program.groups.size());
    const Index group = pricing_.program.communicators[communicator].group;
    if (groups_[group] == nullptr) {
      groups_[group] = &machine_.GroupOf(pricing_.program.groups[group], stage_ranks_);
    }
    return *groups_[group];
  }
  // Positions in the group of a message's sender and receiver.
  std::pair<int, int> EndsOf(const program::Exchange& exchange, const program::Message& message,
                             const program::ProcessGroup& group) const {
    const int own = group.PositionOf(pricing_.program.rank);
    const int peer = exchange.PeerPosition(message, own, static_cast<int>(group.ranks.size()));
    if (message.direction == program::MessageDirection::kSend) return {own, peer};
    return {peer, own};
  }

  const PricedMachine::Group& RouteOf(const program::Exchange& exchange,
                                      const program::ProcessGroup& group, int from, int to) {
    return machine_.GroupOf(
        group, stage_ranks_,
        PricedMachine::MessageRoute{.by_distance = exchange.peers == program::PeerNaming::kDistance,
                                    .from = from,
                                    .to = to});
  }

  // Priced as a shift over the group of the two ranks, in which both send as much at once: links
  // carry the same in both directions.
  MessagePrice PriceMessage(const program::Exchange& exchange, Bytes bytes, bool sends,
                            const program::ProcessGroup& all, int from, int to) {
    if (from == to) {  // a copy, which its sender counts
      MessagePrice price;
      if (sends) {
        price.demand = copies_.PriceOneCopy(
            {.direction = program::CopyDirection::kDeviceToDevice, .bytes = bytes});
      }
      return price;
    }
    const PricedMachine::Group& group = RouteOf(exchange, all, from, to);
    if (exchange.multiprocessors == 0 && pricing_.kernels != nullptr && pricing_.links != nullptr &&
        group.path.nodes == 1 && group.path.intra_bandwidth > Bandwidth()) {
      return PriceByCopyEngines(bytes, sends, group.path);
    }
    const program::Collective shift = {.kind = CollectiveKind::kSendRecv,
                                       .communicator = exchange.communicator,
                                       .bytes = bytes,
                                       .data_type = exchange.data_type};
    const CollectivePrice* known = machine_.Known(shift, group);
    const CollectivePrice price = known != nullptr ? *known : PriceOneCollective(shift, group);
    if (known == nullptr) {
      if (Endless(price.demand)) pricing_.ReportEndless(MessageOf(bytes));
      if (pricing_.diagnostics.empty()) machine_.Remember(shift, group, price);
    }
    MessagePrice end = EndOfMessage(price, sends, exchange.messages.size());
    TakeMultiprocessors(exchange.multiprocessors, static_cast<double>(exchange.messages.size()),
                        end.demand, end.channels);
    return end;
  }

  MessagePrice PriceByCopyEngines(Bytes bytes, bool sends, const CommunicationPath& path) {
    MessagePrice price = {
        .demand =
            PricePeerCopy(bytes, path, *pricing_.scenario.gpu, *pricing_.kernels, *pricing_.links),
        .bandwidth_bound = BandwidthBound(CollectiveKind::kSendRecv, bytes, path)};
    auto& share = price.demand.share;
    if (!sends) {
      share[static_cast<std::size_t>(Resource::kScaleUpIn)] =
          std::exchange(share[static_cast<std::size_t>(Resource::kScaleUp)], 0);
    }
    if (Endless(price.demand)) pricing_.ReportEndless(MessageOf(bytes));
    return price;
  }

  // Sets the multiprocessors that a kernel other than the library's takes; the time remains the
  // library's.
  void TakeMultiprocessors(const std::optional<int>& multiprocessors, double operations,
                           Demand& demand, int& channels) const {
    if (!multiprocessors || !pricing_.scenario.gpu || demand.work == Time()) return;
    channels = *multiprocessors;
    demand.share[static_cast<std::size_t>(Resource::kCompute)] =
        std::min(1.0, *multiprocessors / operations / pricing_.scenario.gpu->multiprocessors);
    demand.occupancy = Occupancy::kTurns;  // products know of them, and leave them out
  }

  static std::string MessageOf(Bytes bytes) {
    return fmt::format("a message of {}", FormatBytes(bytes));
  }

  // A shift moves three bytes of memory for each byte sent: the sender reads it, the receiver reads
  // it from a buffer and writes it. The messages of an exchange share thread blocks.
  static MessagePrice EndOfMessage(const CollectivePrice& shift, bool sends, std::size_t messages) {
    MessagePrice price = {.demand = shift.demand,
                          .protocol = shift.protocol,
                          .channels = shift.channels,
                          .bandwidth_bound = shift.bandwidth_bound};
    const auto share = [&](Resource resource) -> double& {
      return price.demand.share[static_cast<std::size_t>(resource)];
    };
    share(Resource::kCompute) /= static_cast<double>(messages);
    price.demand.occupancy = Occupancy::kTurns;  // demand.h says why
    share(Resource::kMemory) *= (sends ? 1 : 2) / 3.0;
    if (!sends) {
      share(Resource::kScaleUpIn) = std::exchange(share(Resource::kScaleUp), 0);
      share(Resource::kNetworkIn) = std::exchange(share(Resource::kNetwork), 0);
    }
    return price;
  }

  // A priced collective, or one end of a message, on links that others may use as well.
  struct OnLinks {
    Demand* demand = nullptr;
    SharedLinks::Use use;
    double bytes = 0;  // of the size that the use's links are busy for
    std::string name;
  };

  std::vector<OnLinks> AllOnLinks() {
    std::vector<OnLinks> all;
    const auto add = [&](Demand& demand, const PricedMachine::Group& group, const char* algorithm,
                         CollectiveKind kind, Bytes bytes, std::string name) {
      if (group.siblings == nullptr || demand.work == Time() || group.path.ranks < 2) return;
      links_count_ = links_count_ || group.siblings->count();
      all.push_back({.demand = &demand,
                     .use = SharedLinks::Use(group.siblings.get(), algorithm, kind),
                     .bytes = static_cast<double>(bytes.count()),
                     .name = std::move(name)});
    };
    for (std::size_t i = 0; i < pricing_.program.collectives.size(); ++i) {
      const program::Collective& collective = pricing_.program.collectives[i];
      CollectivePrice& price = pricing_.prices.collectives[i];
      add(price.demand, GroupOf(collective.communicator), price.algorithm, collective.kind,
          collective.bytes, std::string(Name(collective.kind)));
    }
    for (std::size_t e = 0; e < pricing_.program.exchanges.size(); ++e) {
      const program::Exchange& exchange = pricing_.program.exchanges[e];
      const program::ProcessGroup& group =
          pricing_.program.groups[pricing_.program.communicators[exchange.communicator].group];
      for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
        const program::Message& message = exchange.messages[i];
        const auto [from, to] = EndsOf(exchange, message, group);
        if (from == to) continue;
        // All members send to the peers at one distance. Therefore the links' load by what they
        // send equals that by what they receive.
        const bool counted_by_sends = exchange.peers == program::PeerNaming::kDistance &&
                                      message.direction == program::MessageDirection::kReceive;
        if (counted_by_sends) continue;
        // A scatter with two parts sends one part.
        add(pricing_.prices.exchanges[e][i].demand, RouteOf(exchange, group, from, to), "pairwise",
            CollectiveKind::kScatter, 2 * message.bytes, MessageOf(message.bytes));
      }
    }
    return all;
  }

  CollectivePrice PriceOneCollective(const program::Collective& collective,
                                     const PricedMachine::Group& group) {
    const CommunicationPath& path = group.path;
    if (path.ranks > 1) {
      if (const auto* table = TableFor(collective.kind, path)) {
        if (!Believable(*table, path)) return {};
        if (const auto price = PriceUnevenAllToAll(collective, group, *table)) return *price;
        CollectivePrice price =
            PriceTabulatedCollective(collective.bytes, path, pricing_.links, *table);
        if (machine_.nccl) {
          machine_.nccl->AddShares({collective.kind, collective.bytes, path, group.shape}, price);
        }
        return price;
      }
      if (const auto price = PriceAllToAllByMessages(collective, group)) return *price;
      if (path.ring_bandwidth == Bandwidth()) {
        if (const auto price = PriceByOtherRanks(collective, path)) return *price;
        pricing_.Report("cost.no-link", pricing_.scenario.cluster_location,
                        fmt::format("the cluster has no link, and the calibration has no table for "
                                    "{} over {} ranks on {} nodes",
                                    Name(collective.kind), path.ranks, path.nodes),
                        "add a link to the flat cluster ('link: {latency: 5 us, bandwidth: 25 "
                        "GB/s}'), or add a table for this collective and number of ranks to the "
                        "profile");
        return {};
      }
      if (!path.flat && pricing_.links == nullptr) {
        pricing_.ReportNoLinkCosts(fmt::format("{} over {} ranks on {} nodes",
                                               Name(collective.kind), path.ranks, path.nodes));
        return {};
      }
      if (machine_.nccl) return PriceByNccl(collective, group);
    }
    return PriceModelledCollective(collective.kind, collective.bytes, path, pricing_.links,
                                   pricing_.scenario.algorithm);
  }

  // On a flat cluster, from a table for another number of ranks.
  std::optional<CollectivePrice> PriceByOtherRanks(const program::Collective& collective,
                                                   const CommunicationPath& path) {
    if (pricing_.scenario.calibration == nullptr || !pricing_.scenario.cluster->flat()) {
      return std::nullopt;
    }
    const auto table = calibration::TableFromOtherRanks(pricing_.scenario.calibration->collectives,
                                                        collective.kind, path.ranks);
    if (!table) return std::nullopt;
    CollectivePrice price =
        PriceTabulatedCollective(collective.bytes, path, pricing_.links, *table);
    price.demand.provenance = std::max(price.demand.provenance, Provenance::kTransferred);
    return price;
  }

  // Messages measured on these ranks, or between two ranks of a flat cluster, whose ranks are all
  // alike, if no communication library is modelled. Null if there are none.
  const calibration::CollectiveTable* MeasuredMessages(const CommunicationPath& of_group) const {
    if (machine_.nccl) return nullptr;
    CommunicationPath path = of_group;
    const auto* table = TableFor(CollectiveKind::kSendRecv, path);
    if (table == nullptr && pricing_.scenario.cluster->flat()) {
      path.ranks = 2;
      table = TableFor(CollectiveKind::kSendRecv, path);
    }
    return table;
  }

  CollectivePrice PriceMessages(Bytes bytes, CommunicationPath path,
                                const calibration::CollectiveTable& messages) {
    if (pricing_.scenario.cluster->flat()) path.ranks = 2;
    if (!Believable(messages, path)) return {};
    return PriceTabulatedCollective(bytes, path, pricing_.links, messages);
  }

  // Without a table, an all-to-all takes as long as a shift of all that a rank sends.
  std::optional<CollectivePrice> PriceAllToAllByMessages(const program::Collective& collective,
                                                         const PricedMachine::Group& group) {
    if (collective.kind != CollectiveKind::kAllToAll) return std::nullopt;
    const auto* const messages = MeasuredMessages(group.path);
    if (messages == nullptr) return std::nullopt;
    CollectivePrice price =
        PriceMessages(SentInAllToAll(collective.bytes, group.path), group.path, *messages);
    price.demand.provenance = std::max(price.demand.provenance, Provenance::kTransferred);
    return price;
  }

  // `table`: of even all-to-alls, whose messages slow each other down. The bytes that every member
  // sends take the time in the table. The first member's further bytes have its links to
  // themselves.
  std::optional<CollectivePrice> PriceUnevenAllToAll(const program::Collective& collective,
                                                     const PricedMachine::Group& group,
                                                     const calibration::CollectiveTable& table) {
    if (collective.kind != CollectiveKind::kAllToAll || collective.loads == AllToAllLoads()) {
      return std::nullopt;
    }
    const auto* const messages = MeasuredMessages(group.path);
    if (messages == nullptr) return std::nullopt;
    const Bytes even(
        std::llround(static_cast<double>(collective.bytes.count()) * collective.loads.others));
    const CollectivePrice more =
        PriceMessages(SentInAllToAll(collective.bytes - even, group.path), group.path, *messages);
    CollectivePrice price = PriceTabulatedCollective(even, group.path, pricing_.links, table);
    price.demand.work += more.demand.work;
    price.demand.provenance = std::max(price.demand.provenance, Provenance::kTransferred);
    price.wire_bytes_per_rank += more.wire_bytes_per_rank;
    price.bandwidth_bound =
        MeasurementBound(CollectiveKind::kAllToAll, collective.bytes, group.path);
    return price;
  }

  // The bytes of an all-to-all that a member sends to other members.
  static Bytes SentInAllToAll(Bytes bytes, const CommunicationPath& path) {
    const std::int64_t ranks = path.ranks;
    return Bytes(bytes.count() / ranks * (ranks - 1));
  }

  CollectivePrice PriceByNccl(const program::Collective& collective,
                              const PricedMachine::Group& group) {
    const CommunicationPath& path = group.path;
    const auto price = machine_.nccl->Price({collective.kind, collective.bytes, path, group.shape},
                                            group.message ? &group.communicator : nullptr);
    if (price) return *price;
    pricing_.Report(
        "cost.no-algorithm", pricing_.scenario.communication_location,
        fmt::format("with these settings, NCCL has no algorithm for {} over {} ranks on {} nodes",
                    Name(collective.kind), path.ranks, path.nodes),
        "restrict nccl_algo to one collective, for example 'allreduce:tree', or add ring to "
        "nccl_algo");
    return {};
  }

  const calibration::CollectiveTable* TableFor(CollectiveKind kind,
                                               const CommunicationPath& path) const {
    if (pricing_.scenario.calibration == nullptr) return nullptr;
    const auto& tables = pricing_.scenario.calibration->collectives;
    return pricing_.scenario.cluster->flat()
               ? calibration::FindTableOfFlatCluster(tables, kind, path.ranks)
               : calibration::FindTable(tables, kind, path.ranks, path.nodes);
  }

  bool Believable(const calibration::CollectiveTable& table, const CommunicationPath& path) {
    for (const auto& [size, time] : table.points) {
      const Time bound = MeasurementBound(table.collective, size, path);
      if (time >= bound) continue;
      pricing_.Report(
          "cost.faster-than-wire", table.location,
          fmt::format("{} over {} ranks on {} nodes: the cluster's links need at least {} for {}, "
                      "but the table states {}",
                      Name(table.collective), path.ranks, path.nodes, FormatTime(bound),
                      FormatBytes(size), FormatTime(time)),
          pricing_.scenario.cluster->flat()
              ? "check that the table defines sizes as nccl-tests does. If the profile was "
                "measured on this cluster, remove the flat cluster's link: --set "
                "cluster.topology.link=null"
              : "check that the table defines sizes as nccl-tests does, and that the profile was "
                "measured on this cluster");
      return false;
    }
    return true;
  }

  Pricing& pricing_;
  PricedMachine& machine_;
  CopyPricer& copies_;
  const int stage_ranks_;
  std::vector<const PricedMachine::Group*> groups_;  // by group
  bool links_count_ = false;  // there are links that a path does not say all of
};

}  // namespace

void PriceCommunication(Pricing& pricing, PricedMachine& machine, CopyPricer& copies) {
  CommunicationPricer pricer(pricing, machine, copies);
  pricer.PriceCollectives();
  pricer.PriceExchanges();
  if (pricing.diagnostics.empty()) pricer.CountSharedLinks();
}

}  // namespace stepcast::cost
