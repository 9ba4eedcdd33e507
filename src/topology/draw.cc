#include "src/topology/draw.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/quantity.h"
#include "src/base/rates.h"
#include "src/topology/device.h"
#include "src/topology/graph.h"
#include "src/topology/node_type.h"
#include "src/topology/routes.h"

namespace stepcast::topology {
namespace {

using Row = std::vector<std::string>;

// A table: each column as wide as its widest cell, two spaces apart, indented. Columns listed in
// `right` are right-aligned.
std::string Aligned(const std::vector<Row>& rows, std::span<const std::size_t> right) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool ends = std::find(right.begin(), right.end(), i) != right.end();
      line += "  ";
      line += ends ? fmt::format("{:>{}}", row[i], widths[i])
                   : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string Counted(int count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// The tree of a node's devices, from the CPUs down, as joined by PCIe and by links between GPUs and
// CPUs. It is what `lstopo` shows of a machine.
class DeviceTree {
 public:
  explicit DeviceTree(const NodeType& node_type)
      : node_type_(node_type), graph_(BuildNodeGraph(node_type)), placed_(graph_.devices.size()) {}

  std::string Draw() {
    std::string text;
    std::string last_shape;
    std::string last_line;
    int alike = 0;
    int last_alike = 0;
    const auto close = [&] {
      if (alike > 0) {
        const DeviceSet set = {DeviceKind::kCpu, Consecutive(last_alike - alike + 1, alike)};
        text += fmt::format("  {}: alike\n", Format(set));
      }
      alike = 0;
    };
    // CPUs are roots, and so are all devices that no CPU reaches.
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kPcieSwitch, DeviceKind::kNic}) {
      for (int i = 0; i < node_type_.Count(kind); ++i) {
        const Vertex root = VertexOf(node_type_, kind, i);
        if (placed_[root]) continue;
        placed_[root] = true;
        std::string below;
        shape_.clear();
        DrawChildren(root, "  ", below);
        // Racks have many CPUs with the same devices below: two of them show the numbering.
        if (kind == DeviceKind::kCpu && i >= 2 && shape_ == last_shape) {
          ++alike;
          last_alike = i;
          continue;
        }
        close();
        text += fmt::format("  {}{}\n", Name(kind), i) + below;
        last_shape = shape_;
      }
      close();
    }
    return text;
  }

 private:
  static std::vector<int> Consecutive(int first, int count) {
    std::vector<int> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), first);
    return indices;
  }

  static bool IsLeaf(DeviceKind kind) {
    return kind == DeviceKind::kGpu || kind == DeviceKind::kNic;
  }

  // Whether the tree shows the link. It omits links between GPUs, between CPUs, and of NVSwitches.
  static bool Shown(DeviceKind a, DeviceKind b) {
    return a != b && a != DeviceKind::kNvSwitch && b != DeviceKind::kNvSwitch;
  }

  void DrawChildren(Vertex parent, const std::string& indent, std::string& text) {
    // Switches are listed one by one, GPUs and NICs grouped by kind.
    std::vector<Vertex> switches;
    std::map<DeviceKind, DeviceSet> leaves;
    for (const Link& link : graph_.links[parent]) {
      const Vertex child = link.to;
      const Device& device = graph_.devices[child];
      if (placed_[child] || !Shown(graph_.devices[parent].kind, device.kind)) continue;
      if (device.kind == DeviceKind::kCpu) continue;  // a root
      placed_[child] = true;
      if (IsLeaf(device.kind)) {
        leaves[device.kind].kind = device.kind;
        leaves[device.kind].indices.push_back(device.index);
      } else {
        switches.push_back(child);
      }
    }
    std::size_t left = switches.size() + leaves.size();
    shape_ += '(';
    for (Vertex child : switches) {
      --left;
      const Device& device = graph_.devices[child];
      text += fmt::format("{}+- {}{}\n", indent, Name(device.kind), device.index);
      shape_ += Name(device.kind);
      DrawChildren(child, indent + (left > 0 ? "|  " : "   "), text);
    }
    for (auto& [kind, set] : leaves) {
      std::sort(set.indices.begin(), set.indices.end());
      text += fmt::format("{}+- {}\n", indent, Format(set));
      shape_ += fmt::format("{}x{}", Name(kind), set.indices.size());
    }
    shape_ += ')';
  }

  const NodeType& node_type_;
  const Graph graph_;
  std::vector<bool> placed_;
  std::string shape_;  // of the subtree drawn last
};

std::string DrawNode(const NodeType& node_type) {
  std::vector<std::string> counts;
  for (int i = 0; i < kNodeDeviceKinds; ++i) {
    const auto kind = static_cast<DeviceKind>(i);
    if (node_type.Count(kind) > 0) {
      counts.push_back(fmt::format("{} {}", node_type.Count(kind), Name(kind)));
    }
  }
  std::string text = "Node: ";
  for (std::size_t i = 0; i < counts.size(); ++i) text += (i > 0 ? ", " : "") + counts[i];
  text += '\n';
  text += DeviceTree(node_type).Draw();

  text += "\nLinks inside a node, in each direction\n";
  std::vector<Row> rows = {
      {"kind", "from", "to", "pairs", "links of a pair", "latency", "bandwidth of a pair"}};
  for (const LinkRule& rule : node_type.links) {
    const Bandwidth all =
        Bandwidth::BytesPerSecond(rule.link.bandwidth.bytes_per_second() * rule.count);
    rows.push_back({std::string(Name(rule.kind)), Format(rule.from), Format(rule.to),
                    fmt::format("{}", PairsOf(rule).size()),
                    fmt::format("{} x {}", rule.count, FormatBandwidth(rule.link.bandwidth)),
                    FormatTime(rule.link.latency), FormatBandwidth(all)});
  }
  constexpr std::size_t kRight[] = {3, 4, 5, 6};
  return text + Aligned(rows, kRight);
}

std::string DrawFabric(const Fabric& fabric, int nodes, int nics_per_node) {
  const int leaves = LeafCount(fabric, nodes);
  std::string text = fmt::format("Fabric: {}", Name(fabric.kind));
  std::vector<Row> rows = {{"from", "to", "links", "latency", "bandwidth"}};
  const auto add = [&rows](std::string from, std::string to, std::int64_t links,
                           const LinkSpec& link) {
    rows.push_back({std::move(from), std::move(to), fmt::format("{}", links),
                    FormatTime(link.latency), FormatBandwidth(link.bandwidth)});
  };
  const std::int64_t ports = static_cast<std::int64_t>(nodes) * nics_per_node;
  if (fabric.kind == FabricKind::kOneSwitch) {
    text += ", non-blocking\n";
    add("nic", "leaf", ports, fabric.link);
  } else {
    text +=
        fmt::format(", {} ({}), {}", Counted(leaves, "leaf", "leaves"),
                    fabric.kind == FabricKind::kRailOptimised
                        ? fmt::format("{} rails, units of {}", fabric.rails,
                                      Counted(fabric.nodes_per_unit, "node", "nodes"))
                        : fmt::format("{} each", Counted(fabric.nodes_per_unit, "node", "nodes")),
                    Counted(fabric.spines, "spine", "spines"));
    if (fabric.kind == FabricKind::kFatTree) {
      text += fmt::format(", oversubscription {}", fabric.oversubscription);
    }
    if (fabric.routing.choice != RouteChoice::kAdaptive) {
      text += fmt::format(", routing {}", Name(fabric.routing.choice));
    }
    text += '\n';
    add("nic", "leaf", ports, fabric.link);
    add("leaf", "spine", static_cast<std::int64_t>(leaves) * fabric.spines, fabric.uplink);
  }
  constexpr std::size_t kRight[] = {2, 3, 4};
  return text + Aligned(rows, kRight);
}

std::vector<int> Ranks(int nodes, int per_node, int gpus_per_node) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(nodes) * static_cast<std::size_t>(per_node));
  for (int node = 0; node < nodes; ++node) {
    for (int gpu = 0; gpu < per_node; ++gpu) ranks.push_back(node * gpus_per_node + gpu);
  }
  return ranks;
}

std::string DrawPaths(const Cluster& cluster) {
  const int gpus = cluster.gpus_per_node();
  const int nodes = cluster.nodes();
  std::vector<Row> rows = {{"ranks", "hop in node", "bandwidth", "hop between nodes", "bandwidth",
                            "ring bandwidth of a rank"}};
  const auto add = [&](std::string name, int over, int per_node) {
    const CommunicationPath path = cluster.PathOf(Ranks(over, per_node, gpus));
    const bool inside = path.ranks_per_node > 1;
    const bool between = path.nodes > 1;
    rows.push_back({std::move(name), inside ? FormatTime(path.intra_latency) : "-",
                    inside ? FormatBandwidth(path.intra_bandwidth) : "-",
                    between ? FormatTime(path.inter_latency) : "-",
                    between ? FormatBandwidth(path.inter_bandwidth) : "-",
                    FormatBandwidth(path.ring_bandwidth)});
  };
  if (gpus > 1) add(fmt::format("{} of one node", gpus), 1, gpus);
  if (nodes > 1) add("1 of each of 2 nodes", 2, 1);
  if (nodes > 1 && gpus > 1) add(fmt::format("{} of 2 nodes", 2 * gpus), 2, gpus);
  if (nodes > 2) add(fmt::format("all {}", nodes * gpus), nodes, gpus);
  if (rows.size() == 1) return "";
  constexpr std::size_t kRight[] = {1, 2, 3, 4, 5};
  return "\nRaw bandwidth of rings in each direction, as a sum over all "
         "channels\n" +
         Aligned(rows, kRight);
}

std::string DrawFlat(const FlatCluster& flat) {
  std::string text = fmt::format(
      "Flat cluster: {}. Each device is a node, and one non-blocking switch connects "
      "all nodes\n",
      Counted(flat.devices, "device", "devices"));
  std::vector<Row> rows;
  rows.push_back({"gpu", flat.gpu.empty() ? "none: only layer lists can be simulated" : flat.gpu});
  rows.push_back({"memory", FormatBytes(flat.memory)});
  rows.push_back({"link", flat.link
                              ? fmt::format("{}, {} each direction", FormatTime(flat.link->latency),
                                            FormatBandwidth(flat.link->bandwidth))
                              : "none: the times of collectives come from tables"});
  return text + Aligned(rows, {});
}

// A star: every device linked to one switch.
Graph GraphOf(const FlatCluster& flat) {
  Graph graph;
  graph.devices.push_back({DeviceKind::kLeafSwitch, -1, 0});
  graph.links.emplace_back();
  for (int i = 0; i < flat.devices; ++i) {
    Link link;
    link.from = graph.devices.size();
    link.kind = LinkKind::kNetwork;
    if (flat.link) {
      link.latency = flat.link->latency;
      link.bandwidth = flat.link->bandwidth;
    }
    graph.devices.push_back({DeviceKind::kGpu, i, 0});
    graph.links.push_back({link});
  }
  return graph;
}

const char* Color(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kGpu:
      return "palegreen";
    case DeviceKind::kNvSwitch:
      return "khaki";
    case DeviceKind::kPcieSwitch:
      return "lightgrey";
    case DeviceKind::kCpu:
      return "lightblue";
    case DeviceKind::kNic:
      return "plum";
    case DeviceKind::kLeafSwitch:
    case DeviceKind::kSpineSwitch:
      return "lightsalmon";
  }
  return "white";
}

const char* Color(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvLink:
      return "darkgreen";
    case LinkKind::kPcie:
      return "grey40";
    case LinkKind::kCpuInterconnect:
      return "blue";
    case LinkKind::kNetwork:
      return "red";
  }
  return "black";
}

}  // namespace

std::string DrawText(const Cluster& cluster) {
  if (const FlatCluster* flat = cluster.flat_cluster()) return DrawFlat(*flat);
  const NodeType& node_type = *cluster.node_type();
  std::string text =
      fmt::format("{} x {} {} ({}), {}\n\n", Counted(cluster.nodes(), "node", "nodes"),
                  cluster.gpus_per_node(), cluster.gpu(), FormatBytes(cluster.device_memory()),
                  Counted(cluster.devices(), "rank", "ranks"));
  text += DrawNode(node_type);
  if (const Fabric* fabric = cluster.fabric()) {
    text += '\n' + DrawFabric(*fabric, cluster.nodes(), node_type.Count(DeviceKind::kNic));
  }
  return text + DrawPaths(cluster);
}

std::string DrawDot(const Cluster& cluster) {
  const Graph graph =
      cluster.flat()
          ? GraphOf(*cluster.flat_cluster())
          : BuildClusterGraph(*cluster.node_type(),
                              cluster.fabric() ? std::optional(*cluster.fabric()) : std::nullopt,
                              cluster.nodes());
  std::string text =
      "graph G {\n"
      "graph [layout=sfdp, overlap=false, splines=true]\n"
      "node [shape=box, style=filled, fontname=\"sans-serif\"]\n"
      "edge [fontname=\"sans-serif\", fontsize=8]\n";
  for (Vertex vertex = 0; vertex < graph.devices.size(); ++vertex) {
    const Device& device = graph.devices[vertex];
    text +=
        fmt::format("{}[label=\"{}\", fillcolor={}];\n", vertex, Name(device), Color(device.kind));
  }
  for (const std::vector<Link>& leaving : graph.links) {
    for (const Link& link : leaving) {
      if (link.id % 2 != 0) continue;  // one line for both directions
      text +=
          fmt::format("{}--{} [color={}, label=\"{}{}, {}\"];\n", link.from, link.to,
                      Color(link.kind), link.count > 1 ? fmt::format("{} links, ", link.count) : "",
                      FormatBandwidth(link.bandwidth), FormatTime(link.latency));
    }
  }
  return text + "}\n";
}

}  // namespace stepcast::topology
