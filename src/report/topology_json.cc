#include "src/report/topology_json.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/report/json_values.h"
#include "src/topology/graph.h"

namespace stepcast::report {
namespace {

void AddGraph(Json& document, const topology::Cluster& cluster) {
  const std::optional<topology::Fabric> fabric =
      cluster.fabric() ? std::optional(*cluster.fabric()) : std::nullopt;
  const topology::Graph graph =
      topology::BuildClusterGraph(*cluster.node_type(), fabric, cluster.nodes());
  Json devices = Json::array();
  for (const topology::Device& device : graph.devices) {
    devices.push_back(
        Json{{"name", topology::Name(device)}, {"kind", topology::Name(device.kind)}});
  }
  Json links = Json::array();
  for (const std::vector<topology::Link>& leaving : graph.links) {
    for (const topology::Link& link : leaving) {
      links.push_back(Json{{"from", topology::Name(graph.devices[link.from])},
                           {"to", topology::Name(graph.devices[link.to])},
                           {"kind", topology::Name(link.kind)},
                           {"count", link.count},
                           {"latency_s", JsonSeconds(link.latency)},
                           {"bandwidth_bytes_per_s", link.bandwidth.bytes_per_second()}});
    }
  }
  document["devices"] = std::move(devices);
  document["links"] = std::move(links);
}

Json Ring(const topology::Cluster& cluster) {
  std::vector<int> ranks(static_cast<std::size_t>(cluster.devices()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const topology::CommunicationPath path = cluster.PathOf(ranks);
  return Json{{"intra_latency_s", JsonSeconds(path.intra_latency)},
              {"inter_latency_s", JsonSeconds(path.inter_latency)},
              {"intra_bandwidth_bytes_per_s", path.intra_bandwidth.bytes_per_second()},
              {"inter_bandwidth_bytes_per_s", path.inter_bandwidth.bytes_per_second()},
              {"ring_bandwidth_bytes_per_s", path.ring_bandwidth.bytes_per_second()}};
}

}  // namespace

std::string TopologyJson(const std::string& name, const topology::Cluster& cluster) {
  Json document{{"stepcast", 1},
                {"topology", name},
                {"nodes", cluster.nodes()},
                {"gpus_per_node", cluster.gpus_per_node()},
                {"ranks", cluster.devices()},
                {"gpu", cluster.gpu().empty() ? Json(nullptr) : Json(cluster.gpu())},
                {"memory_bytes", cluster.device_memory().count()}};
  if (const topology::FlatCluster* flat = cluster.flat_cluster()) {
    document["link"] =
        flat->link ? Json{{"latency_s", JsonSeconds(flat->link->latency)},
                          {"bandwidth_bytes_per_s", flat->link->bandwidth.bytes_per_second()}}
                   : Json(nullptr);
  } else {
    AddGraph(document, cluster);
  }
  document["ring"] = Ring(cluster);
  return Text(document);
}

}  // namespace stepcast::report
