#include "src/nccl/bandwidth.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "src/base/check.h"

namespace stepcast::nccl {
namespace {

// For 1, 2 and more nodes.
using ByNodes = std::array<double, 3>;
// For Volta, Ampere, Hopper and Blackwell.
using ByGeneration = std::array<ByNodes, 4>;

constexpr ByGeneration kLl = {{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr std::size_t kIntelRow = 0;
constexpr std::size_t kAmdRow = 1;

struct PerChannel {
  ByGeneration ring_ll128;
  ByGeneration tree_ll128;
  ByGeneration tree;
  ByGeneration nvls_tree;
};

constexpr PerChannel kV230 = {
    .ring_ll128 = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}},
    .tree_ll128 = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}},
    .tree = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}},
    .nvls_tree = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}}}};

constexpr PerChannel MakeV228() {
  PerChannel table = kV230;
  table.ring_ll128[3] = {73.4, 34.6, 73.4};
  table.nvls_tree[3] = {0, 96, 43.8};
  return table;
}

constexpr PerChannel MakeV227() {
  PerChannel table = kV230;
  table.ring_ll128[3] = {73.4, 73.4, 73.4};
  table.tree_ll128[3] = {73.4, 73.4, 58};
  table.tree[3] = {77.4, 82.8, 72};
  return table;
}

constexpr PerChannel kV228 = MakeV228();
constexpr PerChannel kV227 = MakeV227();

constexpr std::array<double, 4> kNvlsEfficiency = {0, 0, 0.85, 0.74};

const PerChannel& TableOf(Version version) {
  if (version >= Version::kV230) return kV230;
  return version >= Version::kV228 ? kV228 : kV227;
}

}  // namespace

BandwidthCeilings CeilingsOf(Version version, Generation oldest, Cpu cpu, int nodes) {
  STEPCAST_CHECK(nodes >= 1, "a communicator has nodes");
  // Releases that do not know Blackwell treat it as Hopper.
  if (version < Version::kV227) oldest = std::min(oldest, Generation::kHopper);
  const auto row = static_cast<std::size_t>(oldest);
  const auto column = static_cast<std::size_t>(std::min(nodes, 3) - 1);
  const bool amd = cpu == Cpu::kAmd || cpu == Cpu::kMixed;
  const std::size_t ll_row = nodes == 1 ? row : amd ? kAmdRow : kIntelRow;
  const PerChannel& table = TableOf(version);
  return {.ll = kLl[ll_row][column],
          .ring_ll128 = table.ring_ll128[row][column],
          .tree_ll128 = table.tree_ll128[row][column],
          .tree = table.tree[row][column],
          .nvls_tree = table.nvls_tree[row][column],
          .nvls_efficiency = kNvlsEfficiency[row]};
}

namespace {

bool IsCollNet(Algorithm algorithm) {
  return algorithm == Algorithm::kCollNetDirect || algorithm == Algorithm::kCollNetChain;
}
bool Exists(const Communicator& communicator, Function function, Algorithm algorithm,
            Protocol protocol) {
  const bool simple = protocol == Protocol::kSimple;
  switch (algorithm) {
    case Algorithm::kRing:
      return true;
    case Algorithm::kTree:
      return function == Function::kAllReduce;
    case Algorithm::kCollNetChain:
    case Algorithm::kNvlsTree:
      return simple && function == Function::kAllReduce;
    case Algorithm::kCollNetDirect:
    case Algorithm::kNvls:
      return simple && (function == Function::kAllReduce || Gathers(function));
    case Algorithm::kPat:
      // Only with one GPU in each node.
      return simple && Gathers(function) && communicator.version >= Version::kV223 &&
             communicator.nodes == communicator.ranks;
  }
  return false;
}

// Per search channel.
double NvlsChannelBandwidth(const Communicator& communicator, const BandwidthCeilings& ceilings,
                            Function function, Algorithm algorithm) {
  const Graph& graph = communicator.graphs.nvls;
  const double local = communicator.ranks_per_node();
  const bool tree = algorithm == Algorithm::kNvlsTree;
  if (communicator.version >= Version::kV228) {
    // An all-reduce moves data in both directions at once; in other functions a head's own part
    // stays in place.
    double intra =
        graph.bw_intra * ceilings.nvls_efficiency * (graph.channels - 1) / graph.channels;
    intra *= function == Function::kAllReduce ? 2 : (local - 1) / local;
    const double inter = graph.bw_inter * (tree && communicator.nodes <= 2 ? 2 : 1);
    const double bandwidth = std::min(intra, inter);
    return tree ? std::min(bandwidth, ceilings.nvls_tree) : bandwidth;
  }
  if (tree) {
    return std::min(graph.bw_intra, communicator.nodes <= 2 ? graph.bw_inter : graph.bw_inter / 2);
  }
  if (communicator.version >= Version::kV227 && Gathers(function)) {
    return std::min(graph.bw_intra * (local - 1) / local, graph.bw_inter * 0.9);
  }
  return std::min(graph.bw_intra, graph.bw_inter);
}

double CollNetDirectBandwidth(const Communicator& communicator, Function function,
                              double channel_bandwidth, double bus_bandwidth) {
  const Graph& graph = communicator.graphs.collnet_direct;
  const double local = communicator.ranks_per_node();
  if (Gathers(function)) {
    if (communicator.version >= Version::kV227) {
      return local * std::min(graph.bw_intra, graph.bw_inter * 0.9);
    }
    // Interpolated between measurements with one and with eight GPUs in a node.
    const double weight = (local - 1) / 7;
    return local * channel_bandwidth * (weight * 0.85 + (1 - weight) * 0.95);
  }
  // Full speed needs one NIC per GPU.
  double factor = local / graph.channels;
  factor -= (factor - 1) / 2;
  const double reached = communicator.min_compute_capability >= 90 ? 0.85 : 1.0;
  return bus_bandwidth / factor * reached;
}

double BusBandwidth(const Communicator& communicator, Function function, Algorithm algorithm,
                    Protocol protocol) {
  const Graph& graph = communicator.graphs.Of(algorithm);
  const BandwidthCeilings ceilings =
      CeilingsOf(communicator.version, GenerationOf(communicator.min_compute_capability),
                 communicator.cpu, communicator.nodes);
  const int channels = graph.channels;
  const double channel_bandwidth =
      IsNvls(algorithm) ? NvlsChannelBandwidth(communicator, ceilings, function, algorithm)
      : communicator.nodes <= 2 || IsCollNet(algorithm) ? graph.bw_intra
                                                        : graph.bw_inter;
  double bandwidth = channels * channel_bandwidth;
  switch (algorithm) {
    case Algorithm::kRing:
      if (protocol == Protocol::kLl) return std::min(ceilings.ll, bandwidth / 2);
      if (protocol == Protocol::kLl128) {
        const bool alone = communicator.ranks_per_node() < 2;
        const double reached = communicator.version < Version::kV223 && alone ? 0.7 : 0.92;
        return std::min(bandwidth * reached, channels * ceilings.ring_ll128);
      }
      return bandwidth;
    case Algorithm::kTree:
      bandwidth = std::min(bandwidth * 0.92, channels * ceilings.tree);
      if (protocol == Protocol::kLl) bandwidth = std::min(bandwidth / 3.8, ceilings.ll);
      if (protocol == Protocol::kLl128) {
        const double reached = communicator.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0;
        bandwidth = std::min(bandwidth * reached, channels * ceilings.tree_ll128);
      }
      return graph.pattern == Pattern::kTree ? bandwidth * 0.85 : bandwidth;
    case Algorithm::kPat:
      return bandwidth * (communicator.version < Version::kV227 ? 0.85 : 0.75);
    case Algorithm::kCollNetDirect:
      return CollNetDirectBandwidth(communicator, function, channel_bandwidth, bandwidth);
    case Algorithm::kCollNetChain:
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree:
      return bandwidth;
  }
  return bandwidth;
}

// Ratio of algorithm bandwidth to bus bandwidth.
double Ratio(const Communicator& communicator, Function function, Algorithm algorithm) {
  const int n = communicator.ranks;
  const int steps = function == Function::kAllReduce ? 2 * (n - 1) : Gathers(function) ? n - 1 : n;
  const double ring = static_cast<double>(n) / steps;
  if (algorithm == Algorithm::kRing) return ring;
  if (Gathers(function)) return 1;
  if (IsNvls(algorithm)) return communicator.version < Version::kV228 ? 5.0 / 6.0 : ring;
  return 0.5;
}

}  // namespace

double AlgorithmBandwidth(const Communicator& communicator, Function function, Algorithm algorithm,
                          Protocol protocol) {
  if (communicator.ranks < 2 || !Exists(communicator, function, algorithm, protocol)) return 0;
  const Graph& graph = communicator.graphs.Of(algorithm);
  if (graph.channels == 0) return 0;
  if (IsNvls(algorithm) && communicator.version >= Version::kV228 && graph.channels < 2) return 0;
  const bool heads = algorithm == Algorithm::kNvls || algorithm == Algorithm::kCollNetDirect;
  if (heads && Gathers(function) && communicator.nodes > 1 &&
      (!communicator.collnet || !communicator.collnet_gathers ||
       communicator.most_local_ranks > communicator.collnet_heads)) {
    return 0;
  }
  return BusBandwidth(communicator, function, algorithm, protocol) *
         Ratio(communicator, function, algorithm);
}

}  // namespace stepcast::nccl
