#include "src/scenario/scenario_file.h"

#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/scenario/keys_meant.h"
#include "src/scenario/plan_sections.h"

namespace stepcast::scenario {
namespace {

constexpr std::int64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

void ReadFormatVersion(MappingReader& reader, Diagnostics& diagnostics) {
  const std::optional<Node> node =
      reader.ReadNode("stepcast", Need::kRequired, "the version of the format, 1");
  if (!node.has_value()) return;
  const auto version = ReadInteger(*node, {0, 1'000'000}, diagnostics);
  if (version.has_value() && *version != kFormatVersion) {
    reader.Report("stepcast", "scenario.version",
                  fmt::format("this program reads version {} of the scenario format, not {}",
                              kFormatVersion, *version),
                  fmt::format("write stepcast: {}", kFormatVersion));
  }
}

// A path, or the mapping that could stand in that file.
std::optional<Node> ReadSource(MappingReader& reader, std::string_view key, Need need,
                               Diagnostics& diagnostics) {
  const std::optional<Node> node = reader.ReadNode(key, need, "a path, or a mapping");
  if (!node.has_value() || node->kind() == NodeKind::kMapping) return node;
  if (node->kind() == NodeKind::kScalar) {
    if (!ReadText(*node, diagnostics).has_value()) return std::nullopt;
    return node;
  }
  reader.Report(key, node->kind() == NodeKind::kNull ? "input.no-value" : "input.wrong-kind",
                fmt::format("{} needs a path or a mapping, not {}", Quoted(reader.PathOf(key)),
                            node->Described()),
                "name a file, or write the mapping in its place");
  return std::nullopt;
}

void ReadSlowLink(const Node& node, ScenarioFile& file, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  auto from = reader.ReadText("from", Need::kRequired);
  auto to = reader.ReadText("to", Need::kRequired);
  const auto bandwidth = reader.ReadBandwidth("bandwidth", Need::kOptional);
  reader.Finish();
  if (reader.failed() || !from || !to) return;
  file.slow_links.push_back({*std::move(from), *std::move(to), bandwidth, node.location()});
}

void ReadSlowDevice(const Node& node, ScenarioFile& file, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  auto device = reader.ReadText("device", Need::kRequired);
  const auto speed = reader.ReadDecimal("speed", Need::kRequired, {.least = 0.01, .most = 1});
  reader.Finish();
  if (reader.failed() || !device || !speed) return;
  file.slow_devices.push_back(
      {.device = *std::move(device), .speed = *speed, .location = node.location()});
}

void ReadOtherNodes(const Node& node, ScenarioFile& file, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  auto topology = ReadSource(reader, "topology", Need::kRequired, diagnostics);
  auto calibration = ReadSource(reader, "calibration", Need::kOptional, diagnostics);
  const auto nodes = reader.ReadInteger("nodes", Need::kRequired, kNodeRange);
  reader.Finish();
  if (reader.failed() || !topology || !nodes) return;
  file.other_nodes.push_back(
      {*std::move(topology), std::move(calibration), *nodes, node.location()});
}

// `devices`: a number of GPUs, or `plan`.
std::optional<DevicesRequest> ReadDevices(MappingReader& reader, Diagnostics& diagnostics) {
  const auto node = reader.ReadNode("devices", Need::kOptional, "a number of GPUs, or plan");
  if (!node) return std::nullopt;
  if (IsWord(*node, "plan")) return DevicesRequest();
  const auto count = ReadInteger(*node, kDeviceRange, diagnostics);
  return count ? std::optional(DevicesRequest{count}) : std::nullopt;
}

void ReadCluster(MappingReader& reader, ScenarioFile& file, Diagnostics& diagnostics) {
  file.topology = ReadSource(reader, "topology", Need::kRequired, diagnostics);
  file.nodes = reader.ReadInteger("nodes", Need::kOptional, kNodeRange);
  file.devices = ReadDevices(reader, diagnostics);
  file.algorithm = reader.ReadWord<CollectiveAlgorithm>("collective_algorithm", Need::kOptional,
                                                        {{"auto", CollectiveAlgorithm::kAuto},
                                                         {"ring", CollectiveAlgorithm::kRing},
                                                         {"tree", CollectiveAlgorithm::kTree}});
  file.network = reader.ReadWord<Fidelity>("network", Need::kOptional,
                                           {{"analytic", Fidelity::kAnalytic},
                                            {"flow", Fidelity::kFlow},
                                            {"message", Fidelity::kMessage}});
  file.routing.choice = ReadRouting(reader, "routing");
  file.routing.seed = reader.ReadInteger("routing_seed", Need::kOptional, {0, kMostSeed});
  if (const auto links = reader.ReadSequence("slow_links", Need::kOptional)) {
    for (const Node& node : *links) ReadSlowLink(node, file, diagnostics);
  }
  if (const auto devices = reader.ReadSequence("slow_devices", Need::kOptional)) {
    for (const Node& node : *devices) ReadSlowDevice(node, file, diagnostics);
  }
  if (const auto kinds = reader.ReadSequence("other_nodes", Need::kOptional)) {
    for (const Node& node : *kinds) ReadOtherNodes(node, file, diagnostics);
  }
  reader.Finish();
}

// NCCL's environment variables, as keys of the scenario.
void ReadCommunication(MappingReader& reader, ScenarioFile& file, Diagnostics& diagnostics) {
  const auto take = [&](auto parsed, auto& allowed) {
    if (parsed) {
      allowed = *std::move(parsed);
    } else {
      diagnostics.insert(diagnostics.end(), parsed.error().begin(), parsed.error().end());
    }
  };
  file.nccl_algo = reader.ReadText("nccl_algo", Need::kOptional);
  if (file.nccl_algo) {
    take(nccl::ParseAlgorithms(*file.nccl_algo, reader.LocationOf("nccl_algo")),
         file.nccl_overrides.algorithms);
  }
  file.nccl_proto = reader.ReadText("nccl_proto", Need::kOptional);
  if (file.nccl_proto) {
    take(nccl::ParseProtocols(*file.nccl_proto, reader.LocationOf("nccl_proto")),
         file.nccl_overrides.protocols);
  }
  file.nccl_collnet = reader.ReadBoolean("nccl_collnet", Need::kOptional);
  reader.Finish();
}

}  // namespace

ScenarioFile ReadScenarioFile(const Node& root, Diagnostics& diagnostics) {
  ScenarioFile file;
  const std::size_t first = diagnostics.size();
  MappingReader reader(root, diagnostics);
  ReadFormatVersion(reader, diagnostics);
  file.name = reader.ReadText("name", Need::kOptional);
  file.model = ReadSource(reader, "model", Need::kRequired, diagnostics);
  if (auto cluster = reader.ReadMapping("cluster", Need::kRequired)) {
    ReadCluster(*cluster, file, diagnostics);
  }
  file.calibration = ReadSource(reader, "calibration", Need::kOptional, diagnostics);
  file.calibration_of_another_gpu =
      reader.ReadBoolean("calibration_of_another_gpu", Need::kOptional);
  if (auto software = reader.ReadMapping("software", Need::kOptional)) {
    ReadSoftware(*software, file.request);
  }
  if (auto communication = reader.ReadMapping("communication", Need::kOptional)) {
    ReadCommunication(*communication, file, diagnostics);
  }
  if (auto training = reader.ReadMapping("training", Need::kRequired)) {
    ReadTraining(*training, file.request);
  }
  if (auto parallelism = reader.ReadMapping("parallelism", Need::kOptional)) {
    ReadParallelism(*parallelism, file.request);
  }
  if (auto experts = reader.ReadMapping("experts", Need::kOptional)) {
    ReadExperts(*experts, file.request);
  }
  if (auto data_parallel = reader.ReadMapping("data_parallel", Need::kRequired)) {
    ReadDataParallel(*data_parallel, file.request);
  }
  reader.Finish();
  SuggestKeysMeant(root, first, diagnostics);
  return file;
}

}  // namespace stepcast::scenario
