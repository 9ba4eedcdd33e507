#include "src/cost/link_loads.h"

#include <algorithm>

#include "src/base/expected.h"
#include "src/base/rates.h"
#include "src/network/traffic.h"

namespace stepcast::cost {
namespace {

constexpr Bytes kReference = GiB(4);

}  // namespace

LinkLoads::LinkLoads(const network::ClusterNetwork& network)
    : network_(network.network), steps_(network), router_(network.network) {}

tl::expected<LinkLoads::Load, network::Fault> LinkLoads::Of(std::span<const int> ranks,
                                                            std::string_view algorithm,
                                                            CollectiveKind kind) {
  const network::PlacedSteps placed = steps_.Make(ranks, algorithm, kind, kReference);
  STEPCAST_TAKE(const auto traffic,
                network::Traffic::Make(*placed.list, network_, placed.places, router_));
  const auto reference = static_cast<double>(kReference.count());
  Load load;
  load.transfer = traffic.transfer().seconds() / reference;
  load.busy.reserve(traffic.loads().size());
  for (const network::Traffic::Load& of_link : traffic.loads()) {
    const Bandwidth bandwidth = network_.link(of_link.link).bandwidth;
    load.busy.emplace_back(
        static_cast<std::uint32_t>(of_link.link),
        of_link.bytes / static_cast<double>(bandwidth.bytes_per_second()) / reference);
  }
  return load;
}

tl::expected<LinkLoads::Load, network::Fault> LinkLoads::OfMessage(int from, int to) {
  STEPCAST_TAKE(const auto path, router_.Find(from, to));
  Load load;
  load.busy.reserve(path.shares.size());
  for (const network::Share& share : path.shares) {
    const Bandwidth bandwidth = network_.link(share.link).bandwidth;
    const double busy = share.part / static_cast<double>(bandwidth.bytes_per_second());
    load.busy.emplace_back(static_cast<std::uint32_t>(share.link), busy);
    load.transfer = std::max(load.transfer, busy);
  }
  std::sort(load.busy.begin(), load.busy.end());
  return load;
}

}  // namespace stepcast::cost
