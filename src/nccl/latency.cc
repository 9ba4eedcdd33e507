#include "src/nccl/latency.h"

#include <algorithm>
#include <bit>

#include "src/nccl/latency_table.h"

namespace stepcast::nccl {
namespace {

// What posting one message to the network costs the processor.
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
    // Chunks wait for each other; NCCL stands in the tree's hop for that.
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
  // With one rank in each node nothing hides the network; Simple also has to flush what arrived.
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

}  // namespace stepcast::nccl
