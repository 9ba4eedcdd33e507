#include "src/nccl/point_to_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "src/nccl/fabric.h"
#include "src/nccl/link_bandwidth.h"

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

std::vector<Round> ExchangeRounds(int nodes, int ranks_per_node, int rank) {
  const int node = rank / ranks_per_node;
  const int local = rank % ranks_per_node;
  std::vector<Round> rounds;
  // x (x + 1) / 2 modulo a power of two takes every value below it once.
  const auto for_each_delta = [](int count, auto visit) {
    const int modulus = PowerOfTwoAbove(count);
    for (int i = 0, delta = 0; i < modulus; ++i, delta = (delta + i) % modulus) {
      if (delta < count) visit(delta);
    }
  };
  for_each_delta(nodes, [&](int node_delta) {
    const int to = (node + node_delta) % nodes;
    const int from = (node + nodes - node_delta) % nodes;
    for_each_delta(ranks_per_node, [&](int delta) {
      rounds.push_back({.send_to = to * ranks_per_node + (local + delta) % ranks_per_node,
                        .receive_from = from * ranks_per_node +
                                        (local + ranks_per_node - delta) % ranks_per_node});
    });
  });
  return rounds;
}

}  // namespace stepcast::nccl
