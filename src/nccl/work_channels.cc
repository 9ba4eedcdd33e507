#include "src/nccl/work_channels.h"

#include <algorithm>
#include <cstdint>

namespace stepcast::nccl {
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
