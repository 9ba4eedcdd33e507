#include "src/cost/collective_flows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/scenario/job_devices.h"
#include "src/topology/cluster.h"

namespace stepcast::cost {
const CollectivePrice& SlowestPrice(std::span<const RankClass> kinds, program::Index collective) {
  const RankClass& first = kinds.front();
  const CollectivePrice* slowest = &first.prices->collectives[collective];
  for (const RankClass& kind : kinds.subspan(1)) {
    if (kind.program->collectives != first.program->collectives) continue;
    const CollectivePrice& price = kind.prices->collectives[collective];
    if (price.demand.uncontended() > slowest->demand.uncontended()) slowest = &price;
  }
  return *slowest;
}

Time LongerWork(Time priced, Time needed) {
  return static_cast<double>(needed.picoseconds()) >
                 static_cast<double>(priced.picoseconds()) * (1 + 1e-6)
             ? needed
             : priced;
}

Time FlowWork(const LinkLoads::Load& load, Bytes bytes, const Demand& price) {
  const double seconds = load.transfer * static_cast<double>(bytes.count());
  return LongerWork(price.work, Time::FromPicoseconds(static_cast<std::int64_t>(seconds * 1e12)));
}

double FlowShare(double busy, Bytes bytes, Time work) {
  if (work == Time()) return 0;
  return std::min(1.0, busy * static_cast<double>(bytes.count()) / work.seconds());
}

Diagnostics NoNetwork(const scenario::Scenario& scenario, const network::Fault& fault) {
  // A disconnected network is reported at the change that disconnects it.
  const std::size_t slow = fault.change < 0 ? 0 : static_cast<std::size_t>(fault.change);
  return {{.code = "cost.no-network",
           .location = scenario.slow_links.empty() ? scenario.cluster_location
                                                   : scenario.slow_links[slow].location,
           .message = fault.message,
           .hint = fault.hint}};
}

Result<std::unique_ptr<const network::ClusterNetwork>> NetworkOf(
    const scenario::Scenario& scenario) {
  std::vector<network::LinkChange> changes;
  for (const scenario::SlowLink& slow : scenario.slow_links) {
    changes.push_back({slow.from, slow.to, slow.bandwidth});
  }
  // The first nodes' switches join all nodes, each kind by links of its own.
  const topology::Cluster& cluster = *scenario.cluster;
  auto made = cluster.flat()
                  ? network::NetworkOf(cluster, changes)
                  : network::NetworkOf(scenario::NodesOf(scenario), cluster.fabric(), changes);
  if (made) return std::make_unique<const network::ClusterNetwork>(*std::move(made));
  Diagnostics diagnostics;
  for (const network::Fault& fault : made.error()) {
    diagnostics.push_back(NoNetwork(scenario, fault).front());
  }
  return tl::unexpected(std::move(diagnostics));
}

}  // namespace stepcast::cost
