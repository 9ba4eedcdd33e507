#include "src/report/dumps.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"
#include "src/base/text_lines.h"
#include "src/base/transport.h"
#include "src/report/answer.h"
#include "src/topology/graph.h"

namespace stepcast::report {
namespace {

using enum Align;

std::string Collective(const formats::TracedCollective& collective) {
  std::string line = fmt::format("#   {}", Printable(collective.collective));
  if (collective.elements > 0) line += fmt::format(" of {} elements", collective.elements);
  if (!collective.data_type.empty()) line += " " + Printable(collective.data_type);
  if (collective.ranks > 0) line += fmt::format(" over {} ranks", collective.ranks);
  return line + fmt::format(": from {}, {}{}\n", FormatTime(collective.start),
                            FormatTime(collective.duration),
                            collective.gradients ? ", gradients" : "");
}

}  // namespace

std::string LayerListYaml(const std::string& name, const formats::TracedStep& step) {
  std::string text = fmt::format(
      "# Written by 'stepcast model import' from ProfilerStep#{}, {}: forward {}, backward {},\n"
      "# exposed communication after backward {}. The remaining time is the time of the update and "
      "of the host.\n"
      "# Kernels ran for {}.\n",
      step.number, FormatTime(step.duration), FormatTime(step.forward), FormatTime(step.backward),
      FormatTime(step.exposed_communication), FormatTime(step.kernels));
  for (const std::string& note : step.notes) text += "# Note: " + Printable(note) + ".\n";
  if (!step.collectives.empty()) {
    text += "# Collectives in launch order:\n";
    for (const formats::TracedCollective& collective : step.collectives) {
      text += Collective(collective);
    }
  }
  text += fmt::format("kind: layers\nname: {}\nlayers:\n", YamlQuoted(name));
  for (const model::ListedLayer& layer : step.layers.layers) {
    text += fmt::format(
        "  - {{name: {}, parameters: [{}], forward: {}, backward: {}, activation: 0 B}}\n",
        YamlQuoted(layer.name), fmt::join(layer.parameters, ", "), ExactTime(layer.forward),
        ExactTime(layer.backward));
  }
  text += fmt::format("optimizer_step: {}\n", ExactTime(step.layers.optimizer_step));
  return text;
}

namespace {

void AddGraph(Json& document, const topology::Cluster& cluster) {
  const std::optional<topology::Fabric> fabric =
      cluster.fabric() ? std::optional(*cluster.fabric()) : std::nullopt;
  const topology::Graph graph =
      topology::BuildClusterGraph(*cluster.node_type(), fabric, cluster.nodes());
  AnswerTable devices{Keys("name kind")};
  for (const topology::Device& device : graph.devices) {
    devices.Add({topology::Name(device), topology::Name(device.kind)});
  }
  AnswerTable links{Keys("from to kind count latency_s bandwidth_bytes_per_s")};
  for (const std::vector<topology::Link>& leaving : graph.links) {
    for (const topology::Link& link : leaving) {
      links.Add({topology::Name(graph.devices[link.from]), topology::Name(graph.devices[link.to]),
                 topology::Name(link.kind), link.count, link.latency,
                 link.bandwidth.bytes_per_second()});
    }
  }
  document["devices"] = devices.ToJson();
  document["links"] = links.ToJson();
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

namespace {

using topology::DeviceKind;
using topology::LinkSpec;

std::string Set(const topology::DeviceSet& set, const topology::NodeType& node_type) {
  // If the set has all devices of a kind in order, no indices are needed.
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
  if (fabric.transport == Transport::kSockets) {
    text += fmt::format("  sockets: {{flow: {}, per_channel: {}}}\n",
                        ExactBandwidth(fabric.sockets.flow), fabric.sockets.per_channel);
  }
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

namespace {

using scenario::Schema;
using scenario::SchemaValue;

Json ToJson(const Schema& schema);

// Pattern of a quantity: digits, an optional fraction, and a unit (base/quantity.h).
Json QuantitySchema(const char* units) {
  return {{"type", "string"}, {"pattern", fmt::format("^[0-9]+(\\.[0-9]+)? ?({})$", units)}};
}

Json Mapping(const Schema& schema) {
  Json mapping = {{"type", "object"}};
  if (schema.keys().empty()) return mapping;  // any keys
  Json properties = Json::object(), required = Json::array();
  for (const Schema::Key& key : schema.keys()) {
    properties[key.name] = ToJson(*key.value);
    if (schema.Requires(key)) required.push_back(key.name);
  }
  mapping["properties"] = std::move(properties);
  if (required.size() > 0) mapping["required"] = std::move(required);
  mapping["additionalProperties"] = false;
  return mapping;
}

Json ToJson(const Schema& schema, const SchemaValue& value) {
  switch (value.kind) {
    case SchemaValue::Kind::kText:
      return {{"type", Json::array({"string", "number"})}};
    case SchemaValue::Kind::kWord:
      return {{"enum", value.words}};
    case SchemaValue::Kind::kInteger:
      return {
          {"type", "integer"}, {"minimum", value.integers.least}, {"maximum", value.integers.most}};
    case SchemaValue::Kind::kDecimal:  // in quotes, too
      return {{"type", Json::array({"number", "string"})},
              {"minimum", value.decimals.least},
              {"maximum", value.decimals.most},
              {"pattern", "^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$"}};
    case SchemaValue::Kind::kBoolean:
      return {{"type", "boolean"}};
    case SchemaValue::Kind::kVersion:  // without quotes a number
      return {{"type", Json::array({"string", "number"})},
              {"pattern", "^[0-9]{1,4}\\.[0-9]{1,4}$"}};
    case SchemaValue::Kind::kBytes:
      return QuantitySchema("B|KB|MB|GB|TB|KiB|MiB|GiB|TiB");
    case SchemaValue::Kind::kBandwidth:
      return QuantitySchema("B/s|KB/s|MB/s|GB/s|TB/s|MiB/s|GiB/s|Kbps|Mbps|Gbps|Tbps");
    case SchemaValue::Kind::kTime:
      return QuantitySchema("ps|ns|us|ms|s|min|h");
    case SchemaValue::Kind::kFlopRate:
      return QuantitySchema("GFLOPS|TFLOPS|PFLOPS");
    case SchemaValue::Kind::kSequence:
      return {{"type", "array"}, {"items", ToJson(*schema.items())}};
    case SchemaValue::Kind::kMapping:
      return Mapping(schema);
  }
  return {};
}

Json ToJson(const Schema& schema) {
  Json forms = Json::array();
  for (const SchemaValue& value : schema.values()) forms.push_back(ToJson(schema, value));
  for (const auto& other : schema.others()) forms.push_back(ToJson(*other));
  Json json = Json::object();
  if (!schema.description().empty()) {
    json["description"] =
        fmt::format("{}. Default: {}", schema.description(), schema.default_value());
  }
  if (forms.size() == 1) {
    json.update(forms[0]);
  } else if (forms.size() > 1) {
    json["anyOf"] = std::move(forms);
  }
  return json;
}

}  // namespace

std::string SchemaJson(const Schema& schema, const std::string& name, int version) {
  Json document = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                   {"$id", fmt::format("urn:stepcast:{}:{}", name, version)},
                   {"title", fmt::format("stepcast {}, version {}", name, version)}};
  document.update(ToJson(schema));
  return Text(document);
}

namespace {

using topology::LinkLoad;

double Slowest(const std::vector<LinkLoad>& loads) {
  double slowest = 0;
  for (const LinkLoad& load : loads) slowest = std::max(slowest, load.seconds());
  return slowest;
}

double ShareOf(const LinkLoad& load, double slowest) {
  return slowest > 0 ? load.seconds() / slowest : 0;
}

}  // namespace

std::string LinkLoadText(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size, const std::vector<LinkLoad>& loads) {
  // Equal loads may differ in the last bits, so they are rounded to a thousandth of a byte.
  constexpr double kThousandths = 1e3;
  using Key = std::tuple<topology::LinkKind, topology::DeviceKind, topology::DeviceKind, Bandwidth,
                         std::int64_t>;
  std::map<Key, std::size_t> lines;
  std::vector<std::pair<const LinkLoad*, int>> alike;
  double most = 0;
  for (const LinkLoad& load : loads) {
    most = std::max(most, load.bytes);
    const Key key{load.kind, load.from_kind, load.to_kind, load.bandwidth,
                  static_cast<std::int64_t>(load.bytes * kThousandths)};
    const auto [line, is_new] = lines.try_emplace(key, alike.size());
    if (is_new) alike.emplace_back(&load, 0);
    ++alike[line->second].second;
  }
  const double slowest = Slowest(loads);
  std::stable_sort(alike.begin(), alike.end(), [](const auto& a, const auto& b) {
    return a.first->seconds() > b.first->seconds();
  });
  const ByteUnit unit = UnitFor(most);
  std::string out = fmt::format(
      "{}\n\n{} of {} by rings over {} ranks on {}: the bytes that cross each link in one "
      "direction\n(links of the fabric, and of one node, because all nodes are equal)\n\n",
      name, Name(kind), FormatBytes(size), Grouped(cluster.devices()),
      cluster.nodes() == 1 ? "1 node" : fmt::format("{} nodes", Grouped(cluster.nodes())));
  Table table({{"kind", kLeft},
               {"from", kLeft},
               {"to", kLeft},
               {"links"},
               {"bandwidth"},
               {fmt::format("{} a link", unit.name)},
               {"ms alone"},
               {"% of slowest link"}});
  for (const auto& [load, count] : alike) {
    constexpr double kMilliseconds = 1e3;
    constexpr double kPercent = 100;
    table.AddRow({std::string(Name(load->kind)), std::string(Name(load->from_kind)),
                  std::string(Name(load->to_kind)), Grouped(count),
                  FormatBandwidth(load->bandwidth), In(unit, load->bytes),
                  Decimal(load->seconds() * kMilliseconds, 3),
                  Decimal(ShareOf(*load, slowest) * kPercent, 1)});
  }
  return out + table.ToString();
}

std::string LinkLoadJson(const std::string& name, const topology::Cluster& cluster,
                         CollectiveKind kind, Bytes size, const std::vector<LinkLoad>& loads) {
  const double slowest = Slowest(loads);
  AnswerTable links{Keys("from to kind count bandwidth_bytes_per_s bytes time_s share_of_slowest")};
  for (const LinkLoad& load : loads) {
    links.Add({load.from, load.to, Name(load.kind), load.count, load.bandwidth.bytes_per_second(),
               JsonNumber(load.bytes), load.seconds(), ShareOf(load, slowest)});
  }
  return Text(Json{{"stepcast", 1},
                   {"topology", name},
                   {"op", Name(kind)},
                   {"algorithm", "ring"},
                   {"size_bytes", size.count()},
                   {"ranks", cluster.devices()},
                   {"nodes", cluster.nodes()},
                   {"links", links.ToJson()}});
}

}  // namespace stepcast::report
