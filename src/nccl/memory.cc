#include "src/nccl/memory.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "src/nccl/chunking.h"

namespace stepcast::nccl {
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
