#include "src/nccl/exchange.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/nccl/bandwidth_ceilings.h"
#include "src/nccl/fabric.h"
#include "src/nccl/generation.h"
#include "src/nccl/latency_table.h"

namespace stepcast::nccl {
namespace {

// Intel's PCIe root cuts what GPUs send each other into 64-byte packets.
constexpr double kIntelOverhead = 1.2;

std::size_t Index(Exchange exchange) { return static_cast<std::size_t>(exchange); }

// What the links of a node carry, in parts of S.
class Loads {
 public:
  Loads(const Fabric& fabric, double nvlink_speed)
      : fabric_(fabric), nvlink_speed_(nvlink_speed), parts_(fabric.links.size()) {}

  void Add(const Path& path, double part) {
    for (int link : path.links) {
      const auto at = static_cast<std::size_t>(link);
      const bool cut = path.through_intel_root && fabric_.links[at].pcie;
      parts_[at] += cut ? part * kIntelOverhead : part;
    }
  }
  // Evenly over several cards.
  void AddOut(std::size_t gpu, const std::vector<std::size_t>& cards, double part) {
    for (std::size_t card : cards) {
      Add(fabric_.gpu_to_nic[gpu][card], part / static_cast<double>(cards.size()));
    }
  }
  void AddIn(const std::vector<std::size_t>& cards, std::size_t gpu, double part) {
    for (std::size_t card : cards) {
      Add(fabric_.nic_to_gpu[card][gpu], part / static_cast<double>(cards.size()));
    }
  }
  // us for each byte of S: MB/s are bytes for each us.
  double Busiest() const {
    double busiest = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i] == 0) continue;
      const double speed = fabric_.links[i].nvlink ? nvlink_speed_ : 1;
      busiest =
          std::max(busiest, parts_[i] / (static_cast<double>(fabric_.links[i].bandwidth) * speed));
    }
    return busiest;
  }

 private:
  const Fabric& fabric_;
  double nvlink_speed_;
  std::vector<double> parts_;
};

}  // namespace

ExchangeModel::ExchangeModel(const Node& node, int nodes, int compute_channels, Version version,
                             double nvlink_speed, std::vector<std::size_t> members)
    : nodes_(nodes),
      local_(static_cast<int>(members.empty() ? node.gpus.size() : members.size())),
      channels_(MakePointToPointChannels(node, nodes, compute_channels, version)) {
  STEPCAST_CHECK(nodes > 1 || local_ > 1, "an exchange has two ranks at least");
  const Fabric fabric = MakeFabric(node, nodes > 1);
  if (members.empty()) {
    members.resize(node.gpus.size());
    std::iota(members.begin(), members.end(), std::size_t{0});
  }
  const auto gpus = static_cast<std::size_t>(local_);
  const auto between = [&](std::size_t a, std::size_t b) -> const Path& {
    return fabric.gpu_to_gpu[members[a]][members[b]];
  };
  const double n = static_cast<double>(nodes) * local_;
  const double others = nodes - 1;  // nodes

  std::vector<std::vector<std::size_t>> cards;
  double nic_latency = 0;
  if (nodes > 1) {
    STEPCAST_CHECK(!node.nics.empty(), "nodes meet over cards");
    for (std::size_t gpu = 0; gpu < gpus; ++gpu)
      cards.push_back(OwnCards(node, fabric, members[gpu]));
    for (const Nic& nic : node.nics) nic_latency = std::max(nic_latency, nic.latency);
    // One rule for all GPUs: NCCL takes the detour where it is possible.
    through_rails_ = gpus > 1;
    for (std::size_t a = 0; a < gpus; ++a) {
      for (std::size_t b = 0; b < gpus; ++b) {
        if (a == b || between(a, b).type == PathType::kNvlink) continue;
        through_rails_ = false;
      }
    }
  }
  // By which cards a message to a place of another node leaves.
  const auto way_out = [&](std::size_t from, std::size_t to) -> const std::vector<std::size_t>& {
    return cards[through_rails_ ? to : from];
  };
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = 0; b < gpus; ++b) {
      if (a != b && between(a, b).type > PathType::kNvlinkBridge) local_kind_ = PeerKind::kPcie;
    }
  }

  const Loads idle(fabric, nvlink_speed);
  Loads all = idle, scatter = idle, gather = idle, shift = idle;
  for (std::size_t a = 0; a < gpus; ++a) {
    for (std::size_t b = 0; b < gpus; ++b) {
      if (a != b) all.Add(between(a, b), 1 / n);
      if (nodes > 1) all.AddOut(members[a], way_out(a, b), others / n);
    }
    if (nodes > 1) all.AddIn(cards[a], members[a], others * local_ / n);
    if (a > 0) {
      scatter.Add(between(0, a), 1 / n);
      gather.Add(between(a, 0), 1 / n);
    }
    if (nodes > 1) scatter.AddOut(members[0], way_out(0, a), others / n);
    const std::size_t next = (a + 1) % gpus;
    if (nodes > 1 && next == 0) {
      shift.AddOut(members[a], way_out(a, 0), 1);
      shift.AddIn(cards[0], members[0], 1);
    } else {
      shift.Add(between(a, next), 1);
    }
  }
  // What leaves the other nodes for the root, each over its own links, is less than what arrives.
  if (nodes > 1) gather.AddIn(cards[0], members[0], others * local_ / n);
  per_byte_[Index(Exchange::kAllToAll)] = all.Busiest();
  per_byte_[Index(Exchange::kScatter)] = scatter.Busiest();
  per_byte_[Index(Exchange::kGather)] = gather.Busiest();
  per_byte_[Index(Exchange::kShift)] = shift.Busiest();

  post_ = node.cpu == Cpu::kAmd ? 2 : 1;
  int oldest = node.gpus.front().compute_capability;
  for (const Gpu& gpu : node.gpus) oldest = std::min(oldest, gpu.compute_capability);
  per_channel_ = 1000 * CeilingsOf(version, GenerationOf(oldest), node.cpu, nodes).ring_ll128;
  const LatencyTable& table = LatenciesOf(version);
  const ByAlgorithm<double>& inside = local_kind_ == PeerKind::kNvlink ? table.nvlink : table.pcie;
  for (Protocol protocol : kProtocols) {
    const auto at = static_cast<std::size_t>(protocol);
    const double base = table.base.at(Algorithm::kRing, protocol);
    const double local_hop = inside.at(Algorithm::kRing, protocol);
    hops_[0][at] = {base, local_hop};
    // Nothing hides the network here: the hop of a communicator with one rank in each node.
    hops_[1][at] = {base, table.network.at(Algorithm::kTree, protocol) +
                              nic_latency * (protocol == Protocol::kSimple ? 2 : 1) +
                              (through_rails_ ? local_hop : 0)};
  }
}

ExchangeTime ExchangeModel::Price(Exchange exchange, Bytes size,
                                  const PointToPointChannels& channels) const {
  const std::int64_t ranks = std::int64_t{nodes_} * local_;
  const bool shift = exchange == Exchange::kShift;
  const Bytes message = shift ? size : Bytes((size.count() + ranks - 1) / ranks);
  // Of the busiest rank.
  const std::int64_t local_peers = shift ? (local_ > 1 ? 1 : 0) : local_ - 1;
  const std::int64_t remote_peers = nodes_ == 1 ? 0 : shift ? 1 : ranks - local_;
  const MessageParts local = PartsOf(message, local_kind_, channels);
  const MessageParts remote = PartsOf(message, PeerKind::kNetwork, channels);
  const std::int64_t operations = local_peers * local.parts + remote_peers * remote.parts;

  ExchangeTime time;
  time.through_rails = through_rails_;
  const bool network = nodes_ > 1;
  time.protocol = (network ? remote : local).low_latency ? Protocol::kLl : Protocol::kSimple;
  time.channels = static_cast<int>(std::min<std::int64_t>(channels.channels, operations));
  const std::int64_t at_once = std::int64_t{kOperationsPerChannel} * time.channels;
  const std::int64_t batches = (operations + at_once - 1) / at_once;
  const Hop& hop = hops_[network ? 1 : 0][static_cast<std::size_t>(time.protocol)];
  time.latency = hop.base + static_cast<double>(batches) * hop.each;
  // LL sends a flag with every four bytes.
  const double on_wire = time.protocol == Protocol::kLl ? 2 : 1;
  time.transfer = std::max(per_byte_[Index(exchange)] * on_wire * static_cast<double>(size.count()),
                           static_cast<double>(remote_peers * remote.parts) * post_);
  const double local_bytes = on_wire * static_cast<double>(local_peers * message.count());
  const auto local_channels = static_cast<double>(std::min<std::int64_t>(
      channels.channels, std::max<std::int64_t>(1, local_peers * local.parts)));
  time.transfer = std::max(time.transfer, local_bytes / (local_channels * per_channel_));
  return time;
}

}  // namespace stepcast::nccl
