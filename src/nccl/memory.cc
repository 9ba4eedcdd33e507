#include "src/nccl/memory.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "src/nccl/bandwidth.h"

namespace stepcast::nccl {
namespace {

constexpr std::int64_t kKiB = 1024;

// The chunk of data that fits into `steps` of a connection.
std::int64_t ChunkOfSteps(Protocol protocol, int steps) {
  const std::int64_t raw = BufferBytes(protocol).count() / kBufferSteps * steps;
  switch (protocol) {
    case Protocol::kLl:
      return raw / 2;
    case Protocol::kLl128:
      return raw / 16 * 15;
    case Protocol::kSimple:
      return raw;
  }
  return raw;
}

// Simple rings fill four steps at once where all ranks send and receive alike.
int StepsOfChunk(Function function, Algorithm algorithm, Protocol protocol) {
  const bool long_chunks = protocol == Protocol::kSimple && algorithm == Algorithm::kRing &&
                           (function == Function::kAllReduce || Gathers(function));
  return long_chunks ? 4 : 1;
}

// Down to `floor`, while fewer than `wanted` chunks would come.
void Halve(std::int64_t& chunk, std::int64_t bytes, std::int64_t lanes, double wanted,
           std::int64_t floor) {
  const auto whole_chunks = [&] { return bytes / (lanes * chunk); };
  while (static_cast<double>(whole_chunks()) < wanted && chunk > floor) chunk /= 2;
}

// To `size`, when the data would not fill `rounds` of all lanes.
void Lower(std::int64_t& chunk, std::int64_t bytes, std::int64_t lanes, std::int64_t rounds,
           std::int64_t size) {
  if (bytes < rounds * lanes * chunk && chunk > size) chunk = size;
}

}  // namespace

Chunking ChunkingOf(const Communicator& communicator, Function function, Algorithm algorithm,
                    Protocol protocol, int channels, Bytes bytes) {
  const std::int64_t total = bytes.count();
  const int local = communicator.ranks / communicator.nodes;
  const int steps = StepsOfChunk(function, algorithm, protocol);
  const int levels = std::bit_width(static_cast<unsigned>(communicator.nodes)) - 1;
  std::int64_t chunk = ChunkOfSteps(protocol, steps);
  std::int64_t lanes = channels;
  switch (algorithm) {
    case Algorithm::kRing:
      if (function == Function::kAllReduce || Gathers(function)) lanes *= communicator.ranks;
      break;
    case Algorithm::kTree:
      if (protocol == Protocol::kLl128) {
        const double hops = 1 + levels + 0.1 * communicator.ranks_per_node();
        const double per_rank = hops / communicator.ranks_per_node();
        Halve(chunk, total, lanes, per_rank * 64, 128 * kKiB);
        Halve(chunk, total, lanes, per_rank * 16, 32 * kKiB);
      }
      break;
    case Algorithm::kCollNetDirect:
      // The depth of its tree inside a node is 2 where there are others to exchange with.
      lanes *= std::max(1, communicator.collnet_heads);
      Halve(chunk, total, lanes, (local > 1 ? 2 : 1) * 64, 128 * kKiB);
      Halve(chunk, total, lanes, (local > 1 ? 2 : 1) * 8, 64 * kKiB);
      Halve(chunk, total, lanes, (local > 1 ? 2 : 1) * 8, 32 * kKiB);
      break;
    case Algorithm::kCollNetChain:
      chunk = 256 * kKiB;
      Halve(chunk, total, lanes, local * 64, 128 * kKiB);
      Halve(chunk, total, lanes, local * 8, 64 * kKiB);
      Halve(chunk, total, lanes, local, 32 * kKiB);
      break;
    case Algorithm::kNvls: {
      lanes *= communicator.graphs.nvls.channels;
      const bool slow =
          communicator.nodes > 1 && AlgorithmBandwidth(communicator, Function::kAllReduce,
                                                       Algorithm::kNvls, Protocol::kSimple) < 150;
      chunk = slow ? 32 * kKiB : 128 * kKiB;
      Lower(chunk, total, lanes, 64, 64 * kKiB);
      Lower(chunk, total, lanes, 8, 32 * kKiB);
      Lower(chunk, total, lanes, 2, 16 * kKiB);
      break;
    }
    case Algorithm::kNvlsTree:
      lanes *= communicator.graphs.nvls.channels;
      chunk = communicator.nodes >= 4 ? 64 * kKiB : 128 * kKiB;
      Lower(chunk, total, lanes, 32, 256 * kKiB);
      Lower(chunk, total, lanes, 16, 128 * kKiB);
      Lower(chunk, total, lanes, 4, 64 * kKiB);
      Lower(chunk, total, lanes, 1, 32 * kKiB);
      break;
    case Algorithm::kPat: {
      const int rounds = function == Function::kAllGather ? 32 : 16;
      while (chunk * lanes * rounds > total && chunk > 64 * kKiB) chunk /= 2;
      break;
    }
  }
  const std::int64_t grain = Grain(protocol).count();
  chunk = chunk / grain * grain;
  return {.chunk = Bytes(chunk),
          .slice = Bytes(steps == 4 ? chunk / 2 : chunk),
          .loop = Bytes(chunk * lanes),
          .steps_of_chunk = steps};
}

Bytes LastRingChunk(const Chunking& chunking, Protocol protocol, int ranks, Bytes left) {
  const std::int64_t part = (left.count() + ranks - 1) / ranks;
  const std::int64_t grain = Grain(protocol).count();
  return std::min(chunking.chunk, Bytes((part + grain - 1) / grain * grain));
}

namespace {

// Connections that a rank receives on, the most of any rank.
int Connections(const Communicator& communicator, Algorithm algorithm) {
  const int local = communicator.most_local_ranks;
  switch (algorithm) {
    case Algorithm::kRing:
      return 1;
    case Algorithm::kTree: {
      // Along the chain two, to other nodes three at most: a parent and two children.
      const int chain = std::min(local - 1, 2);
      return std::min(4,
                      chain + (communicator.nodes > 1 ? std::min(communicator.nodes - 1, 3) : 0));
    }
    case Algorithm::kPat:
      return std::bit_width(static_cast<unsigned>(communicator.ranks - 1));
    case Algorithm::kCollNetDirect:
      return local - 1;
    case Algorithm::kCollNetChain:
      return std::min(local - 1, 2);
    case Algorithm::kNvls:
      return 0;
    case Algorithm::kNvlsTree:
      return std::min(communicator.nodes - 1, 3);
  }
  return 0;
}

}  // namespace

Bytes ConnectionBytes() {
  std::int64_t bytes = 0;
  for (Protocol protocol : kProtocols) bytes += BufferBytes(protocol).count();
  const std::int64_t page = MiB(2).count();
  return Bytes((bytes + page - 1) / page * page);
}

Bytes AlgorithmBytes(const Communicator& communicator, Algorithm algorithm) {
  if (communicator.ranks == 1) return {};
  const bool nvls = algorithm == Algorithm::kNvls || algorithm == Algorithm::kNvlsTree;
  const int channels = nvls ? communicator.nvls_channels : communicator.compute_channels;
  Bytes bytes = channels * Connections(communicator, algorithm) * ConnectionBytes();
  if (nvls) {
    bytes += channels * communicator.graphs.nvls.channels * 2 * (kBufferSteps * KiB(128));
  }
  return bytes;
}

Bytes PointToPointPoolBytes(int point_to_point_channels, Bytes chunk) {
  return point_to_point_channels * 16 * chunk;
}

}  // namespace stepcast::nccl
