#include "src/report/topology_yaml.h"

#include "fmt/format.h"
#include "src/base/quantity.h"
#include "src/base/transport.h"
#include "src/base/yaml_text.h"
#include "src/topology/device_set.h"

namespace stepcast::report {
namespace {

using topology::DeviceKind;
using topology::LinkSpec;

std::string Set(const topology::DeviceSet& set, const topology::NodeType& node_type) {
  // All of a kind in order need no indices.
  const int count = node_type.Count(set.kind);
  bool all = static_cast<int>(set.indices.size()) == count;
  for (int i = 0; all && i < count; ++i) all = set.indices[static_cast<std::size_t>(i)] == i;
  if (all) return std::string(Name(set.kind));
  return fmt::format("\"{}\"", Format(set));
}

std::string Link(const LinkSpec& link) {
  return fmt::format("{{latency: {}, bandwidth: {}}}", ExactTime(link.latency),
                     ExactBandwidth(link.bandwidth));
}

std::string FabricText(const topology::Fabric& fabric) {
  std::string text =
      fmt::format("fabric:\n  kind: {}\n  link: {}\n", Name(fabric.kind), Link(fabric.link));
  if (fabric.kind == topology::FabricKind::kRailOptimised) {
    text += fmt::format("  nodes_per_unit: {}\n  rails: {}\n  spines: {}\n  uplink: {}\n",
                        fabric.nodes_per_unit, fabric.rails, fabric.spines, Link(fabric.uplink));
  } else if (fabric.kind == topology::FabricKind::kFatTree) {
    text += fmt::format(
        "  nodes_per_leaf: {}\n  spines: {}\n  uplink: {{latency: {}}}\n  oversubscription: {}\n",
        fabric.nodes_per_unit, fabric.spines, ExactTime(fabric.uplink.latency),
        fabric.oversubscription);
  }
  if (fabric.kind != topology::FabricKind::kOneSwitch) {
    text += fmt::format("  routing: {}\n  connections: {}\n", Name(fabric.routing.choice),
                        fabric.connections);
  }
  text += fmt::format("  transport: {}\n", Name(fabric.transport));
  if (fabric.sharp) text += "  sharp: true\n";
  return text;
}

}  // namespace

std::string TopologyYaml(const std::string& comment, const std::string& name,
                         const std::vector<std::string>& sources,
                         const topology::NodeType& node_type,
                         const std::optional<topology::Fabric>& fabric) {
  std::string text;
  if (!comment.empty()) text += fmt::format("# {}\n", comment);
  text += fmt::format("name: {}\n", YamlQuoted(name));
  if (!sources.empty()) text += "sources:\n";
  for (const std::string& source : sources) text += fmt::format("  - {}\n", YamlQuoted(source));
  text += fmt::format("node:\n  gpu: {}\n", YamlQuoted(node_type.gpu));
  if (node_type.processor != topology::NodeType().processor) {
    text += fmt::format("  processor: {}\n", Name(node_type.processor));
  }
  text += "  devices: {";
  bool first = true;
  for (int i = 0; i < topology::kNodeDeviceKinds; ++i) {
    const auto kind = static_cast<DeviceKind>(i);
    if (node_type.Count(kind) == 0) continue;
    text += fmt::format("{}{}: {}", first ? "" : ", ", Name(kind), node_type.Count(kind));
    first = false;
  }
  text += "}\n";
  if (!node_type.links.empty()) text += "  links:\n";
  for (const topology::LinkRule& rule : node_type.links) {
    text += fmt::format("    - {{kind: {}, from: {}, to: {}", Name(rule.kind),
                        Set(rule.from, node_type), Set(rule.to, node_type));
    if (rule.join == topology::Join::kAllToAll) text += ", join: all-to-all";
    if (rule.count != 1) text += fmt::format(", count: {}", rule.count);
    text += fmt::format(", latency: {}, bandwidth: {}}}\n", ExactTime(rule.link.latency),
                        ExactBandwidth(rule.link.bandwidth));
  }
  if (fabric) text += FabricText(*fabric);
  return text;
}

}  // namespace stepcast::report
