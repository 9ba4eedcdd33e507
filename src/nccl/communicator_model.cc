#include "src/nccl/communicator_model.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "src/base/check.h"
#include "src/nccl/bandwidth.h"

namespace stepcast::nccl {
// The size-independent part of the tuner's prediction, in microseconds (NVIDIA/nccl,
// src/graph/tuning.cc). Only meaningful if AlgorithmBandwidth is above 0.
double AlgorithmLatency(const Communicator& communicator, Function function, Algorithm algorithm,
                        Protocol protocol);

namespace {

// Processor time to post one message to the network.
double NetworkOverhead(const Communicator& communicator, Protocol protocol) {
  if (communicator.nodes == 1) return 0;
  const double post = communicator.cpu == Cpu::kAmd ? 2 : 1;
  return protocol == Protocol::kSimple ? post * 3 : post;
}

double RingLatency(const Communicator& communicator, Function function, Protocol protocol,
                   const ByAlgorithm<double>& intra_hops, double inter) {
  const LatencyTable& table = LatenciesOf(communicator.version);
  const int n = communicator.ranks;
  const int nodes = communicator.nodes;
  if (function == Function::kBroadcast || function == Function::kReduce) {
    const ByAlgorithm<double>& hops = nodes == 1 ? intra_hops : table.network;
    if (communicator.graphs.ring.same_channels) return hops.at(Algorithm::kRing, protocol);
    // Chunks wait for each other; in NCCL's model the hop of the tree includes this wait.
    const Algorithm hop = protocol == Protocol::kSimple ? Algorithm::kTree : Algorithm::kRing;
    return n * hops.at(hop, protocol);
  }
  const int rounds = function == Function::kAllReduce ? 2 : 1;
  const int steps = rounds * (n - 1);
  const int inter_steps = nodes == 1 ? 0 : rounds * (nodes - 1);
  const double intra =
      std::max(intra_hops.at(Algorithm::kRing, protocol), NetworkOverhead(communicator, protocol));
  return (steps - inter_steps) * intra + inter_steps * inter;
}

}  // namespace

double AlgorithmLatency(const Communicator& communicator, Function function, Algorithm algorithm,
                        Protocol protocol) {
  const LatencyTable& table = LatenciesOf(communicator.version);
  const Graph& graph = communicator.graphs.Of(algorithm);
  const ByAlgorithm<double>& intra_hops =
      graph.type_intra == PathType::kNvlink ? table.nvlink : table.pcie;
  const double intra = intra_hops.at(algorithm, protocol);
  // With one rank in each node nothing hides the network's latency. Simple also has to flush
  // received data.
  const bool alone = communicator.ranks == communicator.nodes;
  const double inter = table.network.at(alone ? Algorithm::kTree : algorithm, protocol) +
                       graph.latency_inter * (protocol == Protocol::kSimple ? 2 : 1);
  const int local = communicator.ranks / communicator.nodes;
  const int levels = std::bit_width(static_cast<unsigned>(communicator.nodes)) - 1;

  double latency = table.base.at(algorithm, protocol);
  switch (algorithm) {
    case Algorithm::kRing:
      return latency + RingLatency(communicator, function, protocol, intra_hops, inter);
    case Algorithm::kTree:
      return latency + 2 * ((local - 1) * intra + levels * inter);
    case Algorithm::kCollNetDirect:
      return latency + 2 * (std::min(1, local - 1) * intra + (local - 1) * 0.4) + inter;
    case Algorithm::kCollNetChain:
      return latency + 2 * (local - 1) * intra + inter;
    case Algorithm::kNvls:
      return communicator.nodes > 1 ? intra + inter : intra;
    case Algorithm::kNvlsTree:
      return latency + intra + 2 * levels * inter;
    case Algorithm::kPat:
      return latency + levels * inter / 3.5 + communicator.ranks * 2.8;
  }
  return latency;
}

// The fraction of their bandwidth that trees reach at a size: NCCL's correction of its own model,
// measured for powers of two from 64 B on (NVIDIA/nccl, src/graph/tuning.cc). `step` is
// floor(log2(bytes / 64)), 0 to kTreeCorrections - 1.
inline constexpr int kTreeCorrections = 24;

constexpr double TreeCorrection(Protocol protocol, int step) {
  constexpr double kFactors[3][kTreeCorrections] = {
      {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
      {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
      {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
       .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};
  return kFactors[static_cast<int>(protocol)][step];
}

namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 640;
constexpr int kMostDirectRanks = 8;  // of a node, for CollNet
constexpr int kMostNvlsHeads = 32;
constexpr int kOperationsPerBatch = 10;  // work of 96 B in batches of 1024 B
constexpr double kLossyFactor = 1024;    // far from everything else

// Whether it is enabled without user settings.
bool Enabled(const Communicator& communicator, Function function, Algorithm algorithm) {
  const bool several = communicator.nodes > 1;
  switch (algorithm) {
    case Algorithm::kTree:
    case Algorithm::kRing:
    case Algorithm::kPat:
      return true;
    case Algorithm::kCollNetDirect:
      return communicator.collnet && communicator.nvswitch &&
             communicator.most_local_ranks <= kMostDirectRanks;
    case Algorithm::kCollNetChain:
      return communicator.collnet && communicator.most_local_ranks <= kMostDirectRanks;
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree:
      if (communicator.nvls_channels == 0) return false;
      if (function != Function::kAllReduce && communicator.most_local_ranks > kMostNvlsHeads) {
        return false;
      }
      return algorithm == Algorithm::kNvlsTree ? several : !several || communicator.collnet;
  }
  return false;
}

// LL128 requires that 128 bytes arrive together. NCCL uses it where that was tested.
bool Ll128IsSafe(const Communicator& communicator, const Graph& graph) {
  const int oldest = communicator.min_compute_capability;
  const PathType farthest = oldest >= 90 ? PathType::kPxn : PathType::kPxb;
  const bool alike = oldest == communicator.max_compute_capability || oldest >= 90;
  return oldest >= 70 && alike && graph.type_inter <= farthest &&
         graph.type_intra <= PathType::kNvlinkBridge;
}

}  // namespace

CommunicatorModel::CommunicatorModel(const Communicator& communicator, const Overrides& overrides)
    : ranks_(communicator.ranks),
      nodes_(communicator.nodes),
      compute_channels_(communicator.compute_channels),
      nvls_channels_(communicator.nvls_channels),
      collnet_heads_(std::max(1, communicator.collnet_heads)) {
  STEPCAST_CHECK(ranks_ >= nodes_ && nodes_ >= 1, "every node of a communicator must have ranks");
  plateau_ = communicator.min_compute_capability < 80 ? 1.9 : 1.4;
  corrects_nvls_tree_ = communicator.version >= Version::kV230 && IsX86(communicator.cpu) &&
                        GenerationOf(communicator.min_compute_capability) == Generation::kBlackwell;

  for (Function function : kFunctions) {
    Tables& tables = tables_[static_cast<std::size_t>(function)];
    for (Algorithm algorithm : kAlgorithms) {
      const bool enabled = Enabled(communicator, function, algorithm) &&
                           overrides.algorithms.allows(function, algorithm);
      for (Protocol protocol : kProtocols) {
        const double bandwidth = AlgorithmBandwidth(communicator, function, algorithm, protocol);
        if (bandwidth == 0) continue;
        tables.latency.at(algorithm, protocol) =
            AlgorithmLatency(communicator, function, algorithm, protocol);
        const bool safe = protocol != Protocol::kLl128 ||
                          !overrides.protocols.is_default(function) ||
                          Ll128IsSafe(communicator, communicator.graphs.Of(algorithm));
        if (enabled && safe && overrides.protocols.allows(function, protocol)) {
          tables.bandwidth.at(algorithm, protocol) = bandwidth;
        }
      }
    }
  }

  const Graph& ring = communicator.graphs.ring;
  for (Algorithm algorithm : kAlgorithms) {
    most_threads_.at(algorithm, Protocol::kLl) = 512;
    most_threads_.at(algorithm, Protocol::kLl128) = kMostThreads;
    most_threads_.at(algorithm, Protocol::kSimple) = kMostThreads;
    thread_threshold_.at(algorithm, Protocol::kLl) = algorithm == Algorithm::kRing ? 8 * ranks_ : 8;
    thread_threshold_.at(algorithm, Protocol::kLl128) = 8;
    const bool collnet =
        algorithm == Algorithm::kCollNetDirect || algorithm == Algorithm::kCollNetChain;
    thread_threshold_.at(algorithm, Protocol::kSimple) = collnet ? 512 : 64;
  }
  const bool slow = ring.bw_intra * ring.channels <= PcieBandwidth(16, 8);
  most_threads_.at(Algorithm::kRing, Protocol::kSimple) = slow ? 256 : 512;
  most_threads_.at(Algorithm::kTree, Protocol::kSimple) = 512;
}

bool CommunicatorModel::Does(const Collective& collective, Algorithm algorithm) const {
  return !(algorithm == Algorithm::kPat && collective.scaled &&
           collective.function == Function::kReduceScatter);
}

double CommunicatorModel::Time(const Collective& collective, Algorithm algorithm,
                               Protocol protocol) const {
  const Tables& tables = tables_[static_cast<std::size_t>(collective.function)];
  double bandwidth = tables.bandwidth.at(algorithm, protocol);
  double latency = tables.latency.at(algorithm, protocol);
  const std::int64_t bytes = collective.bytes.count();
  const bool all_reduce = collective.function == Function::kAllReduce;
  if (all_reduce && bytes >= 64) {
    const int step = std::bit_width(static_cast<std::uint64_t>(bytes / 64)) - 1;
    if ((algorithm == Algorithm::kTree && step < kTreeCorrections - 1) ||
        (algorithm == Algorithm::kNvlsTree && corrects_nvls_tree_ && step < kTreeCorrections)) {
      bandwidth *= TreeCorrection(protocol, step);
    }
  }
  if (all_reduce && algorithm == Algorithm::kRing && protocol == Protocol::kSimple && nodes_ > 1 &&
      bytes / (std::int64_t{compute_channels_} * ranks_) >= 64) {
    latency *= plateau_;
  }
  const int waits = algorithm == Algorithm::kRing
                        ? collective.operations
                        : (collective.operations + kOperationsPerBatch - 1) / kOperationsPerBatch;
  return latency * waits + static_cast<double>(bytes) / (1000 * bandwidth);
}

std::optional<double> CommunicatorModel::PredictedTime(const Collective& collective,
                                                       Algorithm algorithm,
                                                       Protocol protocol) const {
  if (ranks_ == 1) {
    if (algorithm == Algorithm::kRing && protocol == Protocol::kSimple) return 0;
    return std::nullopt;
  }
  if (bandwidth(collective.function, algorithm, protocol) == 0 || !Does(collective, algorithm)) {
    return std::nullopt;
  }
  return Time(collective, algorithm, protocol);
}

std::optional<Choice> CommunicatorModel::Choose(const Collective& collective) const {
  if (ranks_ == 1) return WithResources(collective, Algorithm::kRing, Protocol::kSimple);
  const ByAlgorithm<double>& bandwidths =
      tables_[static_cast<std::size_t>(collective.function)].bandwidth;
  bool found = false;
  double best = 0;
  Algorithm best_algorithm = Algorithm::kRing;
  Protocol best_protocol = Protocol::kSimple;
  for (Algorithm algorithm : kAlgorithms) {
    for (Protocol protocol : kProtocols) {
      if (bandwidths.at(algorithm, protocol) == 0 || !Does(collective, algorithm)) continue;
      double time = Time(collective, algorithm, protocol);
      // Every addition of eight-bit numbers loses precision, too much in a long ring. (NCCL checks
      // only the type, not the function.)
      if (collective.fp8 && algorithm == Algorithm::kRing && ranks_ > 8) time *= kLossyFactor;
      if (found && time >= best) continue;
      found = true;
      best = time;
      best_algorithm = algorithm;
      best_protocol = protocol;
    }
  }
  if (!found) return std::nullopt;
  return WithResources(collective, best_algorithm, best_protocol);
}

Choice CommunicatorModel::WithResources(const Collective& collective, Algorithm algorithm,
                                        Protocol protocol) const {
  Choice choice{.algorithm = algorithm, .protocol = protocol};
  choice.predicted_time = PredictedTime(collective, algorithm, protocol).value_or(0);
  const std::int64_t bytes = collective.bytes.count();
  std::int64_t threshold = thread_threshold_.at(algorithm, protocol);
  std::int64_t channels = compute_channels_;
  std::int64_t threads = most_threads_.at(algorithm, protocol);
  if (IsNvls(algorithm)) {
    channels = nodes_ > 1 && algorithm == Algorithm::kNvls
                   ? std::min(nvls_channels_, compute_channels_)
                   : nvls_channels_;
  } else if (algorithm == Algorithm::kCollNetDirect) {
    // Down to 16, 8, 4, 2 and 1 channels. Each stage requires half as much from there on.
    for (int stage = 16; stage >= 1; stage /= 2) {
      bool small = true;
      while ((small = bytes < channels * threads * collnet_heads_ * threshold) &&
             channels > stage) {
        if (channels == stage + stage / 2) threshold /= 2;
        --channels;
      }
      if (!small) break;
    }
  } else {
    channels = std::clamp<std::int64_t>(bytes / (threads * threshold), 1, channels);
    while (bytes < channels * threads * threshold && threads % 128 == 0) threads /= 2;
  }
  if (protocol == Protocol::kSimple && algorithm == Algorithm::kRing) threads += kWarp;
  threads = std::max<std::int64_t>(threads, 3 * kWarp);
  if (algorithm == Algorithm::kTree || algorithm == Algorithm::kPat) threads = kMostThreads;
  choice.channels = static_cast<int>(channels);
  choice.threads = static_cast<int>(threads);
  return choice;
}

Communicator MakeCommunicator(const Node& node, int nodes, Version version) {
  Communicator result;
  result.version = version;
  result.nodes = nodes;
  result.most_local_ranks = static_cast<int>(node.gpus.size());
  result.ranks = nodes * result.most_local_ranks;
  result.collnet =
      nodes > 1 && !node.nics.empty() &&
      std::all_of(node.nics.begin(), node.nics.end(), [](const Nic& nic) { return nic.reduces; });
  result.graphs = FindGraphs(node, nodes, version, result.collnet);
  result.collnet_gathers = result.collnet;
  result.collnet_heads = std::min(result.graphs.collnet_direct.channels, result.most_local_ranks);
  result.cpu = node.cpu;
  const auto [oldest, newest] = std::minmax_element(
      node.gpus.begin(), node.gpus.end(),
      [](const Gpu& a, const Gpu& b) { return a.compute_capability < b.compute_capability; });
  result.min_compute_capability = oldest->compute_capability;
  result.max_compute_capability = newest->compute_capability;
  result.compute_channels = ComputeChannels(result.graphs, nodes, result.min_compute_capability);
  result.nvls_channels = NvlsChannels(result.graphs, nodes, result.min_compute_capability);
  result.nvswitch = std::all_of(node.gpus.begin(), node.gpus.end(),
                                [](const Gpu& gpu) { return gpu.nvswitch_links > 0; });
  return result;
}

namespace {

constexpr std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

int ChannelsUsed(const Collective& collective, Algorithm algorithm, Protocol protocol, int ranks,
                 int most, Version version) {
  if (algorithm == Algorithm::kCollNetDirect || algorithm == Algorithm::kCollNetChain) return most;
  const std::int64_t least_traffic = version >= Version::kV230 ? 32 << 10 : 16 << 10;
  const bool gathers = Gathers(collective.function);
  std::int64_t traffic_per_byte = gathers                                       ? ranks
                                  : collective.function == Function::kAllReduce ? 2
                                                                                : 1;
  const std::int64_t bytes =
      gathers ? CeilDivide(collective.bytes.count(), ranks) : collective.bytes.count();
  if (bytes == 0) return 0;
  if (protocol == Protocol::kLl) traffic_per_byte *= 4;
  const std::int64_t traffic = std::max(least_traffic, bytes * traffic_per_byte);
  const std::int64_t traffic_per_channel = std::max(least_traffic, traffic / most);
  const std::int64_t cell = CeilDivide(CeilDivide(least_traffic, traffic_per_byte), 16) * 16;
  const std::int64_t cells = CeilDivide(bytes, cell);
  const std::int64_t cells_per_channel =
      std::min(cells, CeilDivide(traffic_per_channel, cell * traffic_per_byte));
  return static_cast<int>(std::min<std::int64_t>(most, CeilDivide(cells, cells_per_channel)));
}

}  // namespace stepcast::nccl
