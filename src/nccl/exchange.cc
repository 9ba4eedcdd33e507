#include "src/nccl/exchange.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/base/check.h"
#include "src/nccl/bandwidth.h"

namespace stepcast::nccl {
namespace {

constexpr Bytes kLocalChunk = KiB(512);
constexpr Bytes kRemoteChunk = KiB(128);
constexpr Bytes kLowLatencyPerChannel = KiB(16);
constexpr double kBandwidthPerChannel = 14;  // GB/s of network

int PowerOfTwoAbove(int n) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))); }

}  // namespace

std::vector<std::size_t> OwnCards(const Node& node, const Fabric& fabric, std::size_t gpu) {
  PathType nearest = PathType::kDisconnected;
  for (const Path& path : fabric.gpu_to_nic[gpu]) nearest = std::min(nearest, path.type);
  std::vector<std::size_t> cards;
  for (std::size_t nic = 0; nic < node.nics.size(); ++nic) {
    if (fabric.gpu_to_nic[gpu][nic].type == nearest) cards.push_back(nic);
  }
  if (cards.empty()) return cards;
  std::size_t sharing = 0;
  std::size_t before = 0;
  for (std::size_t other = 0; other < node.gpus.size(); ++other) {
    if (fabric.gpu_to_nic[other][cards.front()].type != nearest) continue;
    ++sharing;
    if (other < gpu) ++before;
  }
  const std::size_t count = (cards.size() + sharing - 1) / sharing;
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < count; ++i) {
    own.push_back(cards[(before * count + i) % cards.size()]);
  }
  return own;
}

PointToPointChannels MakePointToPointChannels(const Node& node, int nodes, int compute_channels,
                                              Version version) {
  const Fabric fabric = MakeFabric(node, nodes > 1);
  const int ranks = nodes * static_cast<int>(node.gpus.size());
  PointToPointChannels result;
  result.channels = PowerOfTwoAbove(compute_channels);
  int poorest = compute_channels;
  for (std::size_t a = 0; a < node.gpus.size(); ++a) {
    for (std::size_t b = 0; b < node.gpus.size(); ++b) {
      if (a == b) continue;
      const Path& path = fabric.gpu_to_gpu[a][b];
      int channels = 2;
      if (path.type == PathType::kNvlink) {
        const double link = NvlinkBandwidth(node.gpus[a].compute_capability);
        channels = 2 * std::max(1, static_cast<int>(std::lround(path.bandwidth / link)));
      }
      poorest = std::min(poorest, channels);
    }
    if (nodes == 1) continue;
    const std::vector<std::size_t> cards = OwnCards(node, fabric, a);
    double bandwidth = 0;
    for (std::size_t card : cards) bandwidth += fabric.gpu_to_nic[a][card].bandwidth;
    const int count = static_cast<int>(cards.size());
    int channels = 2;
    if (version >= Version::kV230) {
      channels = std::max(count, static_cast<int>(std::ceil(bandwidth / kBandwidthPerChannel)));
    } else {
      while (channels * ranks > compute_channels * 4 && channels > 1) channels /= 2;
      channels = std::max(channels, count);
    }
    poorest = std::min(poorest, std::max(1, channels));
  }
  result.channels_per_peer = std::min(PowerOfTwoAbove(poorest), result.channels);
  if (nodes > 1 && version >= Version::kV230) {
    const int crowd = (ranks + kOperationsPerChannel - 1) / kOperationsPerChannel;
    while (result.channels_per_peer > 1 && result.channels_per_peer * crowd > result.channels) {
      result.channels_per_peer /= 2;
    }
  }
  result.one_node = nodes == 1;
  result.channels_at_first = result.channels_per_peer;
  while (result.channels_at_first > 1 && result.channels_at_first * ranks > result.channels) {
    result.channels_at_first /= 2;
  }
  return result;
}

MessageParts PartsOf(Bytes message, PeerKind kind, const PointToPointChannels& channels) {
  const bool network = kind == PeerKind::kNetwork;
  const std::int64_t bytes = std::max<std::int64_t>(1, message.count());
  MessageParts result;
  result.chunk = kind == PeerKind::kNvlink && channels.one_node ? kLocalChunk : kRemoteChunk;
  const std::int64_t step = result.chunk.count();
  const std::int64_t least = channels.one_node ? step / 8 : step / 2;
  const std::int64_t longest = channels.one_node ? 32 * step : step;
  result.parts = static_cast<int>(
      std::clamp<std::int64_t>((bytes + least - 1) / least, 1, channels.channels_at_first));
  while (bytes > longest * result.parts && result.parts <= channels.channels_per_peer / 2) {
    result.parts *= 2;
  }
  result.part = Bytes((bytes + result.parts - 1) / result.parts);
  result.low_latency = message <= result.parts * kLowLatencyPerChannel;
  if (network && bytes < step) {
    result.chunk = Bytes(step / 4);
  } else if (network && bytes < 8 * step) {
    result.chunk = Bytes(step / 2);
  }
  return result;
}

namespace {

// Intel's PCIe root splits traffic between GPUs into 64-byte packets.
constexpr double kIntelOverhead = 1.2;

std::size_t Index(Exchange exchange) { return static_cast<std::size_t>(exchange); }

// Loads of a node's links, as fractions of S.
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
  // Spreads the load evenly over several NICs.
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
  // Microseconds for each byte of S, because MB/s are bytes per microsecond.
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

// Paths between the members of `nodes` such machines. A member's peers are numbered like the
// members of its own node.
class Peers {
 public:
  // `members`: as for ExchangeModel; not empty.
  Peers(const Node& node, int nodes, std::vector<std::size_t> members)
      : nodes_(nodes), members_(std::move(members)), fabric_(MakeFabric(node, nodes > 1)) {
    if (nodes == 1) return;
    STEPCAST_CHECK(!node.nics.empty(),
                   "if a communicator spans several nodes, each node must have "
                   "a network card");
    for (const std::size_t gpu : members_) cards_.push_back(OwnCards(node, fabric_, gpu));
    for (const Nic& nic : node.nics) nic_latency_ = std::max(nic_latency_, nic.latency);
    // One rule for all GPUs: NCCL takes the detour wherever it is possible.
    through_rails_ =
        count() > 1 && AllPaths([](const Path& path) { return path.type == PathType::kNvlink; });
  }

  const Fabric& fabric() const { return fabric_; }
  bool through_rails() const { return through_rails_; }
  double nic_latency() const { return nic_latency_; }
  // Whether the predicate holds for every path inside a node.
  template <typename Predicate>
  bool AllPaths(Predicate holds) const {
    for (std::size_t a = 0; a < count(); ++a) {
      for (std::size_t b = 0; b < count(); ++b) {
        if (a != b && !holds(Between(a, b))) return false;
      }
    }
    return true;
  }

  // Adds the load of each exchange on the links, in parts of S.
  void AddAllToAll(Loads& loads) const {
    for (std::size_t a = 0; a < count(); ++a) {
      for (std::size_t b = 0; b < count(); ++b) {
        if (a != b) loads.Add(Between(a, b), 1 / ranks());
        if (nodes_ > 1) loads.AddOut(members_[a], WayOut(a, b), others() / ranks());
      }
      if (nodes_ > 1) loads.AddIn(cards_[a], members_[a], FromOthers());
    }
  }
  void AddScatter(Loads& loads) const {
    for (std::size_t a = 0; a < count(); ++a) {
      if (a > 0) loads.Add(Between(0, a), 1 / ranks());
      if (nodes_ > 1) loads.AddOut(members_[0], WayOut(0, a), others() / ranks());
    }
  }
  // The other nodes send to the root over links of their own, which carry less than arrives at the
  // root.
  void AddGather(Loads& loads) const {
    for (std::size_t a = 1; a < count(); ++a) loads.Add(Between(a, 0), 1 / ranks());
    if (nodes_ > 1) loads.AddIn(cards_[0], members_[0], FromOthers());
  }
  void AddShift(Loads& loads) const {
    for (std::size_t a = 0; a < count(); ++a) {
      const std::size_t next = (a + 1) % count();
      if (nodes_ > 1 && next == 0) {
        loads.AddOut(members_[a], WayOut(a, 0), 1);
        loads.AddIn(cards_[0], members_[0], 1);
      } else {
        loads.Add(Between(a, next), 1);
      }
    }
  }

 private:
  std::size_t count() const { return members_.size(); }
  double ranks() const { return static_cast<double>(nodes_) * static_cast<double>(count()); }
  double others() const { return nodes_ - 1; }  // nodes
  // The part of S that a member receives from other nodes.
  double FromOthers() const { return others() * static_cast<double>(count()) / ranks(); }
  const Path& Between(std::size_t a, std::size_t b) const {
    return fabric_.gpu_to_gpu[members_[a]][members_[b]];
  }
  // The NICs by which a message to a member of another node leaves.
  const std::vector<std::size_t>& WayOut(std::size_t from, std::size_t to) const {
    return cards_[through_rails_ ? to : from];
  }

  int nodes_;
  std::vector<std::size_t> members_;
  Fabric fabric_;
  std::vector<std::vector<std::size_t>> cards_;  // of each member, between nodes
  double nic_latency_ = 0;
  bool through_rails_ = false;
};

std::vector<std::size_t> AllGpus(const Node& node) {
  std::vector<std::size_t> gpus(node.gpus.size());
  std::iota(gpus.begin(), gpus.end(), std::size_t{0});
  return gpus;
}

}  // namespace

ExchangeModel::ExchangeModel(const Node& node, int nodes, int compute_channels, Version version,
                             double nvlink_speed, std::vector<std::size_t> members)
    : nodes_(nodes),
      local_(static_cast<int>(members.empty() ? node.gpus.size() : members.size())),
      channels_(MakePointToPointChannels(node, nodes, compute_channels, version)) {
  STEPCAST_CHECK(nodes > 1 || local_ > 1, "an exchange needs at least two ranks");
  const Peers peers(node, nodes, members.empty() ? AllGpus(node) : std::move(members));
  through_rails_ = peers.through_rails();
  const bool over_nvlink =
      peers.AllPaths([](const Path& path) { return path.type <= PathType::kNvlinkBridge; });
  if (!over_nvlink) local_kind_ = PeerKind::kPcie;

  const auto busiest = [&](void (Peers::*add)(Loads&) const) {
    Loads loads(peers.fabric(), nvlink_speed);
    (peers.*add)(loads);
    return loads.Busiest();
  };
  per_byte_[Index(Exchange::kAllToAll)] = busiest(&Peers::AddAllToAll);
  per_byte_[Index(Exchange::kScatter)] = busiest(&Peers::AddScatter);
  per_byte_[Index(Exchange::kGather)] = busiest(&Peers::AddGather);
  per_byte_[Index(Exchange::kShift)] = busiest(&Peers::AddShift);

  post_ = node.cpu == Cpu::kAmd ? 2 : 1;
  int oldest = node.gpus.front().compute_capability;
  for (const Gpu& gpu : node.gpus) oldest = std::min(oldest, gpu.compute_capability);
  per_channel_ = 1000 * CeilingsOf(version, GenerationOf(oldest), node.cpu, nodes).ring_ll128;
  SetHops(version, peers.nic_latency());
}

void ExchangeModel::SetHops(Version version, double nic_latency) {
  const LatencyTable& table = LatenciesOf(version);
  const ByAlgorithm<double>& inside = local_kind_ == PeerKind::kNvlink ? table.nvlink : table.pcie;
  for (Protocol protocol : kProtocols) {
    const auto at = static_cast<std::size_t>(protocol);
    const double base = table.base.at(Algorithm::kRing, protocol);
    const double local_hop = inside.at(Algorithm::kRing, protocol);
    hops_[0][at] = {base, local_hop};
    // Nothing hides the network's latency here, so take the hop of a communicator with one rank in
    // each node.
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
  // For the busiest rank.
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
  // LL sends a four-byte flag with every four bytes.
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
