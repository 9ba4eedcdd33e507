#include "src/scenario/calibration_file.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/calibration/plausible.h"

namespace stepcast::scenario {
namespace {

using calibration::Calibration;
using calibration::CollectiveTable;

constexpr IntegerRange kGroupSize{1, 10'000'000};

// How plausible.h names a key that the file nests.
std::string FieldOf(std::string field) {
  for (std::string_view algorithm : {"ring", "tree"}) {
    const std::string prefix = fmt::format("links.{}_", algorithm);
    if (field.starts_with(prefix)) {
      return fmt::format("links.{}.{}", algorithm, field.substr(prefix.size()));
    }
  }
  return field;
}

// The node that a dotted path like "collectives[2].points[3]" names below `node`, if it is there.
std::optional<Node> Descend(Node node, std::string_view path) {
  while (!path.empty()) {
    std::optional<Node> below;
    if (path.front() == '[') {
      const std::size_t close = path.find(']');
      std::size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + close, index);
      const std::vector<Node> items = node.items();
      if (index < items.size()) below = items[index];
      path.remove_prefix(close + 1);
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const std::string_view key = path.substr(0, path.find_first_of(".["));
      for (const auto& [name, value] : node.entries()) {
        if (name == key) below = value;
      }
      path.remove_prefix(key.size());
    }
    if (!below) return std::nullopt;
    node = *std::move(below);
  }
  return node;
}

std::vector<std::pair<std::string, std::string>> ReadProvenance(MappingReader& reader,
                                                                Diagnostics& diagnostics) {
  std::vector<std::pair<std::string, std::string>> provenance;
  const auto section = reader.ReadMapping("provenance", Need::kRequired);
  if (!section || section->node().kind() != NodeKind::kMapping) return provenance;
  for (const auto& [key, value] : section->node().entries()) {
    if (auto text = ReadText(value, diagnostics)) provenance.emplace_back(key, std::move(*text));
  }
  if (section->node().entries().empty()) {
    reader.Report("provenance", "calibration.no-provenance", "a profile says where it comes from",
                  "write what machine, which software, when and how");
  }
  return provenance;
}

// A required key of a section: zero after a Diagnostic, and then the profile is not used.
double Decimal(MappingReader& reader, std::string_view key) {
  return reader.ReadDecimal(key, Need::kRequired, {}).value_or(0);
}
Time Duration(MappingReader& reader, std::string_view key) {
  return reader.ReadTime(key, Need::kRequired, Zero::kAllowed).value_or(Time());
}
Bytes Size(MappingReader& reader, std::string_view key) {
  return reader.ReadBytes(key, Need::kRequired, Zero::kAllowed).value_or(Bytes());
}

void ReadGemm(MappingReader& kernels, calibration::KernelCosts& costs) {
  auto gemm = kernels.ReadMapping("gemm", Need::kRequired);
  if (!gemm) return;
  bool any = false;
  for (DataType type : {DataType::kFp32, DataType::kBf16, DataType::kFp16, DataType::kFp8}) {
    auto figures = gemm->ReadMapping(Name(type), Need::kOptional);
    if (!figures) continue;
    any = true;
    calibration::GemmEfficiency& efficiency = costs.gemm[static_cast<std::size_t>(type)];
    efficiency.max_efficiency = Decimal(*figures, "max_efficiency");
    efficiency.half_flops =
        static_cast<double>(figures->ReadInteger("half_flops", Need::kRequired, {}).value_or(0));
    if (efficiency.max_efficiency == 0 && !figures->failed()) {
      // Zero for both would say that nothing is known; Check() then looks away.
      figures->Report("max_efficiency", "calibration.implausible",
                      "an efficiency lies above 0 and at most at 1: 0",
                      "leave the data type out when nothing is known about it");
    }
    figures->Finish();
  }
  gemm->Finish();
  if (!any && !gemm->failed()) {
    kernels.Report("gemm", "calibration.no-gemm", "no data type has figures for matrix products",
                   "write for example 'bf16: {max_efficiency: 0.75, half_flops: 3000000000}'");
  }
}

calibration::KernelCosts ReadKernels(MappingReader& section) {
  calibration::KernelCosts costs;
  ReadGemm(section, costs);
  costs.attention_forward_efficiency = Decimal(section, "attention_forward_efficiency");
  costs.attention_backward_efficiency = Decimal(section, "attention_backward_efficiency");
  costs.memory_efficiency = Decimal(section, "memory_efficiency");
  costs.start_latency = Duration(section, "start_latency");
  costs.launch = Duration(section, "launch");
  costs.collective_launch = Duration(section, "collective_launch");
  section.Finish();
  return costs;
}

calibration::LinkCosts ReadLinks(MappingReader& section) {
  calibration::LinkCosts costs;
  costs.nvlink_efficiency = Decimal(section, "nvlink_efficiency");
  costs.pcie_efficiency = Decimal(section, "pcie_efficiency");
  costs.network_efficiency = Decimal(section, "network_efficiency");
  if (auto ring = section.ReadMapping("ring", Need::kRequired)) {
    costs.ring_base = Duration(*ring, "base");
    costs.ring_nvlink_hop = Duration(*ring, "nvlink_hop");
    costs.ring_pcie_hop = Duration(*ring, "pcie_hop");
    costs.ring_network_hop = Duration(*ring, "network_hop");
    ring->Finish();
  }
  if (auto tree = section.ReadMapping("tree", Need::kRequired)) {
    costs.tree_base = Duration(*tree, "base");
    costs.tree_nvlink_hop = Duration(*tree, "nvlink_hop");
    costs.tree_pcie_hop = Duration(*tree, "pcie_hop");
    costs.tree_network_hop = Duration(*tree, "network_hop");
    tree->Finish();
  }
  section.Finish();
  return costs;
}

calibration::MemoryCosts ReadMemory(MappingReader& section) {
  calibration::MemoryCosts costs;
  costs.context = Size(section, "context");
  costs.first_communicator = Size(section, "first_communicator");
  costs.next_communicator = Size(section, "next_communicator");
  costs.gemm_workspace = Size(section, "gemm_workspace");
  section.Finish();
  return costs;
}

std::pair<Bytes, Time> ReadPoint(const Node& node, const CollectiveTable& before,
                                 Diagnostics& diagnostics) {
  const std::vector<Node> pair = node.items();
  if (pair.size() == 2) {
    const auto size = ReadBytes(pair[0], Zero::kAllowed, diagnostics);
    const auto time = ReadTime(pair[1], Zero::kAllowed, diagnostics);
    if (size && time) return {*size, *time};
  } else {
    diagnostics.push_back(
        {"calibration.bad-point", node.location(),
         fmt::format("{} needs a size and a time: {}", node.path(), node.Described()),
         "write [1 MiB, 13.1 ms]"});
  }
  if (before.points.empty()) return {Bytes(1), Picoseconds(1)};
  const auto& [size, time] = before.points.back();
  return {size + Bytes(1), time};
}

// A table as far as it can be read. What cannot be stands as something plausible, so that the rest
// can still be checked; the diagnostics keep the profile from being used.
CollectiveTable ReadTable(const Node& node, int index, Diagnostics& diagnostics) {
  CollectiveTable table;
  table.location = node.location();
  MappingReader reader(node, diagnostics);
  const auto kind = reader.ReadWord<CollectiveKind>(
      "collective", Need::kRequired,
      {{Name(CollectiveKind::kAllReduce), CollectiveKind::kAllReduce},
       {Name(CollectiveKind::kReduceScatter), CollectiveKind::kReduceScatter},
       {Name(CollectiveKind::kAllGather), CollectiveKind::kAllGather},
       {Name(CollectiveKind::kBroadcast), CollectiveKind::kBroadcast}});
  const auto ranks = reader.ReadInteger("ranks", Need::kRequired, kGroupSize);
  const auto nodes = reader.ReadInteger("nodes", Need::kRequired, kGroupSize);
  if (kind && ranks && nodes) {
    table.collective = *kind;
    table.ranks = static_cast<int>(*ranks);
    table.nodes = static_cast<int>(*nodes);
  } else {
    table.ranks = static_cast<int>(kGroupSize.most) + 1 + index;  // no other table's key
    table.nodes = 1;
  }
  if (const auto points = reader.ReadSequence("points", Need::kRequired)) {
    for (const Node& point : *points) table.points.push_back(ReadPoint(point, table, diagnostics));
  }
  reader.Finish();
  return table;
}

// What could be read and cannot be true. A value that could not be read was reported as such and
// stands as zero; a missing one has no node.
void ReportFaults(const Calibration& calibration, const Node& node, Diagnostics& diagnostics) {
  const std::size_t unreadable = diagnostics.size();
  const auto reported = [&](const Location& location) {
    return std::any_of(diagnostics.begin(), diagnostics.begin() + unreadable,
                       [&](const Diagnostic& diagnostic) {
                         return diagnostic.location.line == location.line &&
                                diagnostic.location.column == location.column;
                       });
  };
  for (calibration::Fault& fault : calibration::Check(calibration)) {
    const std::optional<Node> at = Descend(node, FieldOf(std::move(fault.field)));
    if (!at || reported(at->location())) continue;
    diagnostics.push_back({"calibration.implausible", at->location(), std::move(fault.message),
                           std::move(fault.hint)});
  }
}

}  // namespace

std::optional<Calibration> ReadCalibration(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  Calibration calibration;
  calibration.location = node.location();
  calibration.name = reader.ReadText("name", Need::kRequired).value_or("");
  calibration.provenance = ReadProvenance(reader, diagnostics);
  if (auto section = reader.ReadMapping("kernels", Need::kOptional)) {
    calibration.kernels = ReadKernels(*section);
  }
  if (auto section = reader.ReadMapping("links", Need::kOptional)) {
    calibration.links = ReadLinks(*section);
  }
  if (auto section = reader.ReadMapping("memory", Need::kOptional)) {
    calibration.memory = ReadMemory(*section);
  }
  if (const auto tables = reader.ReadSequence("collectives", Need::kOptional)) {
    for (const Node& table : *tables) {
      const int index = static_cast<int>(calibration.collectives.size());
      calibration.collectives.push_back(ReadTable(table, index, diagnostics));
    }
  }
  reader.Finish();
  ReportFaults(calibration, node, diagnostics);
  if (reader.failed()) return std::nullopt;
  return calibration;
}

Result<Calibration> LoadCalibration(const std::string& path) {
  Diagnostics diagnostics;
  const std::optional<Node> root = ReadDocument(path, diagnostics);
  if (root) {
    if (auto calibration = ReadCalibration(*root, diagnostics)) return *std::move(calibration);
  }
  return tl::unexpected(std::move(diagnostics));
}

}  // namespace stepcast::scenario
