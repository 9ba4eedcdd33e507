#include "src/scenario/calibration_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/calibration/plausible.h"
#include "src/scenario/curve_file.h"
#include "src/scenario/data_root.h"
#include "src/scenario/framework_costs_file.h"
#include "src/scenario/learned_runs_section.h"
#include "src/scenario/node_path.h"

namespace stepcast::scenario {
namespace {

using calibration::Calibration;
using calibration::CollectiveTable;
using calibration::Neighbour;

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

// Whether the section holds measured times, next to which efficiencies may be missing.
bool HasMeasurements(const MappingReader& kernels) {
  for (std::string_view key : {"gemm_surface", "attention_forward_surface",
                               "attention_backward_surface", "memory_curve", "optimizer_curve"}) {
    if (kernels.Has(key)) return true;
  }
  return false;
}

// `tiles: [[256, 128, 0.89], ...]`, the other form of a data type's figures.
calibration::GemmTiling ReadTiling(MappingReader& figures, Diagnostics& diagnostics) {
  calibration::GemmTiling tiling;
  const auto rows = figures.ReadSequence("tiles", Need::kRequired);
  for (const Node& node : rows.value_or(std::vector<Node>())) {
    const std::vector<Node> row = node.items();
    if (row.size() != 3) {
      diagnostics.push_back({"calibration.bad-point", node.location(),
                             fmt::format("{} needs the two sizes of a tile and its efficiency: {}",
                                         node.path(), node.Described()),
                             "write [256, 128, 0.89]"});
      continue;
    }
    const auto m = ReadInteger(row[0], {.least = 1, .most = 65'536}, diagnostics);
    const auto n = ReadInteger(row[1], {.least = 1, .most = 65'536}, diagnostics);
    const auto efficiency = ReadDecimal(row[2], {}, diagnostics);
    if (m && n && efficiency) tiling.tiles.push_back({*m, *n, *efficiency});
  }
  if (rows && rows->empty()) {
    figures.Report("tiles", "calibration.no-points", "a data type needs at least one tile: nothing",
                   "write for example 'tiles: [[256, 128, 0.89], [128, 128, 0.85]]'");
  }
  tiling.fill = Decimal(figures, "fill");
  tiling.add_fill = figures.ReadDecimal("add_fill", Need::kOptional, {}).value_or(0);
  tiling.start = Duration(figures, "start");
  return tiling;
}

void ReadAttention(MappingReader& kernels, calibration::KernelCosts& costs) {
  auto section = kernels.ReadMapping("attention", Need::kOptional);
  if (!section) return;
  for (std::size_t i = 0; i < costs.attention.size(); ++i) {
    auto figures = section->ReadMapping(calibration::kFusedNames[i], Need::kOptional);
    if (!figures) continue;
    calibration::AttentionEfficiency& attention = costs.attention[i];
    const auto half = [&](std::string_view key) {
      return static_cast<double>(figures->ReadInteger(key, Need::kOptional, {}).value_or(0));
    };
    attention.forward = Decimal(*figures, "forward");
    attention.backward = Decimal(*figures, "backward");
    attention.forward_half_flops = half("forward_half_flops");
    attention.backward_half_flops = half("backward_half_flops");
    attention.forward_half_length = half("forward_half_length");
    attention.backward_half_length = half("backward_half_length");
    attention.head_64 = figures->ReadDecimal("head_64", Need::kOptional, {}).value_or(1);
    attention.head_256 = figures->ReadDecimal("head_256", Need::kOptional, {}).value_or(1);
    figures->Finish();
  }
  section->Finish();
}

void ReadPower(MappingReader& kernels, calibration::KernelCosts& costs) {
  auto section = kernels.ReadMapping("power", Need::kOptional);
  if (!section) return;
  costs.power.idle = Decimal(*section, "idle_watts");
  costs.power.products = Decimal(*section, "products_watts");
  costs.power.memory = section->ReadDecimal("memory_watts", Need::kOptional, {}).value_or(0);
  section->Finish();
}

void ReadTraffic(MappingReader& kernels, calibration::KernelCosts& costs) {
  auto section = kernels.ReadMapping("traffic", Need::kOptional);
  if (!section) return;
  for (std::size_t i = 0; i < kAccessCount; ++i) {
    if (static_cast<Access>(i) == Access::kPlain) continue;
    costs.traffic[i] =
        section->ReadDecimal(kAccessNames[i], Need::kOptional, {}).value_or(costs.traffic[i]);
  }
  section->Finish();
}

// The newest release first.
void ReadUnalignedBatches(MappingReader& kernels, calibration::KernelCosts& costs,
                          Diagnostics& diagnostics) {
  const auto releases = kernels.ReadSequence("batched_unaligned", Need::kOptional);
  if (!releases) return;
  for (const Node& node : *releases) {
    const std::size_t before = diagnostics.size();
    MappingReader release(node, diagnostics);
    calibration::UnalignedBatches batches;
    batches.torch = release.ReadVersion("torch", Need::kOptional).value_or(Version());
    for (DataType type : kDataTypes) {
      batches.rate[static_cast<std::size_t>(type)] =
          release.ReadDecimal(Name(type), Need::kOptional, {}).value_or(0);
    }
    release.Finish();
    if (diagnostics.size() == before && batches.rate == calibration::UnalignedBatches().rate) {
      diagnostics.push_back({"calibration.no-points", node.location(),
                             "an entry of batched_unaligned needs the rate of a data type: none",
                             "write for example 'fp16: 0.65'"});
    }
    const auto older = std::find_if(
        costs.batched_unaligned.begin(), costs.batched_unaligned.end(),
        [&](const calibration::UnalignedBatches& other) { return other.torch <= batches.torch; });
    if (older != costs.batched_unaligned.end() && older->torch == batches.torch) {
      diagnostics.push_back({"calibration.repeated-point", node.location(),
                             batches.torch == Version()
                                 ? "a second entry without torch"
                                 : fmt::format("a second entry from torch {}.{} on",
                                               batches.torch.major, batches.torch.minor),
                             "give each release once"});
      continue;
    }
    costs.batched_unaligned.insert(older, batches);
  }
}

void ReadGemm(MappingReader& kernels, Need need, calibration::KernelCosts& costs,
              Diagnostics& diagnostics) {
  auto gemm = kernels.ReadMapping("gemm", need);
  if (!gemm) return;
  bool any = false;
  for (DataType type : kDataTypes) {
    auto figures = gemm->ReadMapping(Name(type), Need::kOptional);
    if (!figures) continue;
    any = true;
    // One form of a release takes the place of the other.
    costs.gemm[static_cast<std::size_t>(type)] = {};
    costs.gemm_tiling[static_cast<std::size_t>(type)] = {};
    if (figures->Has("tiles")) {
      costs.gemm_tiling[static_cast<std::size_t>(type)] = ReadTiling(*figures, diagnostics);
      figures->Finish();
      continue;
    }
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

// The items of a row like [1 MiB, 13.1 ms]; empty after a Diagnostic when there are not `count`.
std::vector<Node> RowOf(const Node& node, std::size_t count, std::string_view needs,
                        std::string_view example, Diagnostics& diagnostics) {
  std::vector<Node> row = node.items();
  if (row.size() == count) return row;
  diagnostics.push_back({"calibration.bad-point", node.location(),
                         fmt::format("{} needs {}: {}", node.path(), needs, node.Described()),
                         fmt::format("write {}", example)});
  return {};
}

// A point as far as it can be read. What cannot be stands as something plausible behind the points
// before, so that the rest can still be checked; the diagnostics keep the profile from being used.
void AddAfter(calibration::Curve& points, std::optional<Bytes> size, std::optional<Time> time) {
  if (size && time) {
    points.emplace_back(*size, *time);
  } else if (points.empty()) {
    points.emplace_back(Bytes(1), Picoseconds(1));
  } else {
    points.emplace_back(points.back().first + Bytes(1), points.back().second);
  }
}

void ReadPoints(const std::vector<Node>& nodes, calibration::Curve& points,
                Diagnostics& diagnostics) {
  for (const Node& node : nodes) {
    const std::vector<Node> row =
        RowOf(node, 2, "a size and a time", "[1 MiB, 13.1 ms]", diagnostics);
    std::optional<Bytes> size;
    std::optional<Time> time;
    if (!row.empty()) {
      size = ReadBytes(row[0], Zero::kAllowed, diagnostics);
      time = ReadTime(row[1], Zero::kAllowed, diagnostics);
    }
    AddAfter(points, size, time);
  }
}

// The nodes of an optional sequence that has something in it.
std::vector<Node> ReadRows(MappingReader& section, std::string_view key) {
  const auto nodes = section.ReadSequence(key, Need::kOptional);
  if (!nodes) return {};
  if (nodes->empty()) {
    section.Report(key, "calibration.no-points", "a curve needs at least one point: nothing",
                   "leave the key out when nothing was measured");
  }
  return *nodes;
}

calibration::Curve ReadCurve(MappingReader& section, std::string_view key,
                             Diagnostics& diagnostics) {
  calibration::Curve curve;
  ReadPoints(ReadRows(section, key), curve, diagnostics);
  return curve;
}

std::optional<std::int64_t> ReadCount(const Node& node, Diagnostics& diagnostics) {
  return ReadInteger(node, {.least = 1}, diagnostics);
}

// Rows [heads, sequence, head size, time] in any order, each size once.
calibration::AttentionSurface ReadCores(MappingReader& by_type, std::string_view type,
                                        Diagnostics& diagnostics) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::int64_t, Time>> curves;
  for (const Node& node : ReadRows(by_type, type)) {
    const std::vector<Node> row =
        RowOf(node, 4, "heads, a sequence's length, a head's size, a time",
              "[128, 2048, 64, 310 us]", diagnostics);
    if (row.empty()) continue;
    const auto heads = ReadCount(row[0], diagnostics);
    const auto sequence = ReadCount(row[1], diagnostics);
    const auto head_size = ReadCount(row[2], diagnostics);
    const auto time = ReadTime(row[3], Zero::kRefused, diagnostics);
    if (!heads || !sequence || !head_size || !time) continue;
    if (!curves[{*head_size, *heads}].emplace(*sequence, *time).second) {
      diagnostics.push_back({"calibration.repeated-point", node.location(),
                             fmt::format("a second row for {} heads of {} and a sequence of {}",
                                         *heads, *head_size, *sequence),
                             "give each combination of sizes once"});
    }
  }
  calibration::AttentionSurface surface;
  for (const auto& [sizes, points] : curves) {
    surface.push_back({.head_size = sizes.first,
                       .heads = sizes.second,
                       .points = {points.begin(), points.end()}});
  }
  return surface;
}

// The values on an axis of a surface, each once, and where a value stands.
std::vector<std::int64_t> Axis(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}
std::size_t Position(const std::vector<std::int64_t>& axis, std::int64_t value) {
  return static_cast<std::size_t>(std::lower_bound(axis.begin(), axis.end(), value) - axis.begin());
}

// Rows [m, n, k, time] in any order; they must fill the grid that their values span.
calibration::GemmSurface ReadSurface(MappingReader& by_type, std::string_view type,
                                     Diagnostics& diagnostics) {
  struct Point {
    std::int64_t m = 0, n = 0, k = 0;
    Time time;
    Location location;
  };
  std::vector<Point> points;
  bool readable = true;
  for (const Node& node : ReadRows(by_type, type)) {
    const std::vector<Node> row = RowOf(node, 4, "the three sizes of a product and a time",
                                        "[1024, 1024, 1024, 25 us]", diagnostics);
    readable = readable && !row.empty();
    if (row.empty()) continue;
    const auto m = ReadCount(row[0], diagnostics);
    const auto n = ReadCount(row[1], diagnostics);
    const auto k = ReadCount(row[2], diagnostics);
    const auto time = ReadTime(row[3], Zero::kRefused, diagnostics);
    readable = readable && m && n && k && time;
    if (readable) points.push_back({*m, *n, *k, *time, node.location()});
  }
  calibration::GemmSurface surface;
  if (!readable || points.empty()) return surface;
  const auto axis = [&](std::int64_t Point::*size) {
    std::vector<std::int64_t> values;
    for (const Point& point : points) values.push_back(point.*size);
    return Axis(std::move(values));
  };
  surface.m = axis(&Point::m);
  surface.n = axis(&Point::n);
  surface.k = axis(&Point::k);
  const std::size_t wanted = surface.m.size() * surface.n.size() * surface.k.size();
  if (wanted != points.size()) {
    by_type.Report(
        type, "calibration.incomplete-surface",
        fmt::format("{} x {} x {} values of m, n and k need {} rows: {}", surface.m.size(),
                    surface.n.size(), surface.k.size(), wanted, points.size()),
        "give every combination of the values exactly once");
    return {};
  }
  surface.times.resize(wanted);
  for (const Point& point : points) {
    Time& time = surface.times[(Position(surface.m, point.m) * surface.n.size() +
                                Position(surface.n, point.n)) *
                                   surface.k.size() +
                               Position(surface.k, point.k)];
    if (time != Time()) {
      diagnostics.push_back(
          {"calibration.incomplete-surface", point.location,
           fmt::format("a second row for one product: {} x {} x {}", point.m, point.n, point.k),
           "give every combination of the values exactly once"});
      return {};
    }
    time = point.time;
  }
  return surface;
}

// `releases`, the oldest first: what is different with the libraries of each, over the costs
// before.
std::vector<calibration::KernelRelease> ReadReleases(MappingReader& kernels,
                                                     const calibration::KernelCosts& before,
                                                     Diagnostics& diagnostics) {
  std::vector<calibration::KernelRelease> releases;
  const auto entries = kernels.ReadSequence("releases", Need::kOptional);
  for (const Node& node : entries.value_or(std::vector<Node>())) {
    MappingReader reader(node, diagnostics);
    const auto torch = reader.ReadVersion("torch", Need::kRequired);
    calibration::KernelCosts costs = releases.empty() ? before : releases.back().costs;
    ReadGemm(reader, Need::kOptional, costs, diagnostics);
    ReadAttention(reader, costs);
    ReadPower(reader, costs);
    ReadTraffic(reader, costs);
    const auto part = [&](std::string_view key, double& value) {
      value = reader.ReadDecimal(key, Need::kOptional, {}).value_or(value);
    };
    part("gemm_unaligned", costs.gemm_unaligned);
    part("gemm_unaligned_even", costs.gemm_unaligned_even);
    part("gemm_unaligned_result", costs.gemm_unaligned_result);
    part("memory_efficiency", costs.memory_efficiency);
    costs.token_sum_time = reader.ReadTime("token_sum_time", Need::kOptional, Zero::kAllowed)
                               .value_or(costs.token_sum_time);
    reader.Finish();
    if (!torch) continue;
    if (!releases.empty() && *torch <= releases.back().torch) {
      diagnostics.push_back(
          {"calibration.implausible", node.location(),
           fmt::format("releases must be ascending: {}.{} after {}.{}", torch->major, torch->minor,
                       releases.back().torch.major, releases.back().torch.minor),
           "each is what is different from the one before it"});
      continue;
    }
    releases.push_back({.torch = *torch, .costs = std::move(costs)});
  }
  return releases;
}

calibration::KernelCosts ReadKernels(MappingReader& section,
                                     std::vector<calibration::KernelRelease>& releases,
                                     Diagnostics& diagnostics) {
  calibration::KernelCosts costs;
  const bool measured = HasMeasurements(section);
  const Need need = measured ? Need::kOptional : Need::kRequired;
  const auto efficiency = [&](std::string_view key) {
    return section.ReadDecimal(key, need, {}).value_or(0);
  };
  ReadGemm(section, need, costs, diagnostics);
  ReadAttention(section, costs);
  ReadPower(section, costs);
  ReadTraffic(section, costs);
  costs.attention_forward_efficiency =
      costs.attention[1].forward != 0 ? 0 : efficiency("attention_forward_efficiency");
  costs.attention_backward_efficiency =
      costs.attention[1].backward != 0 ? 0 : efficiency("attention_backward_efficiency");
  costs.gemm_unaligned = section.ReadDecimal("gemm_unaligned", Need::kOptional, {}).value_or(0);
  costs.gemm_unaligned_even =
      section.ReadDecimal("gemm_unaligned_even", Need::kOptional, {}).value_or(0);
  costs.gemm_unaligned_result =
      section.ReadDecimal("gemm_unaligned_result", Need::kOptional, {}).value_or(0);
  ReadUnalignedBatches(section, costs, diagnostics);
  costs.memory_efficiency = efficiency("memory_efficiency");
  costs.variation = section.ReadDecimal("variation", Need::kOptional, {}).value_or(0);
  costs.jitter = section.ReadDecimal("jitter", Need::kOptional, {}).value_or(0);
  costs.token_sum_time =
      section.ReadTime("token_sum_time", Need::kOptional, Zero::kAllowed).value_or(Time());
  costs.start_latency = Duration(section, "start_latency");
  costs.launch = Duration(section, "launch");
  // A profile that one rank measured does not know it.
  costs.collective_launch =
      section.ReadTime("collective_launch", need, Zero::kAllowed).value_or(Time());
  using Written = std::array<bool, kDataTypeCount>;
  const auto by_type = [&](std::string_view key, auto& surfaces, const auto& read) {
    Written written{};
    auto types = section.ReadMapping(key, Need::kOptional);
    if (!types) return written;
    for (DataType type : kDataTypes) {
      const auto at = static_cast<std::size_t>(type);
      written[at] = types->Has(Name(type));
      surfaces[at] = read(*types, Name(type), diagnostics);
    }
    types->Finish();
    return written;
  };
  const Written forward = by_type("gemm_surface", costs.gemm_surface, ReadSurface);
  const std::pair<std::string_view, std::array<calibration::GemmSurface, kDataTypeCount>&>
      gradients[] = {{"gemm_input_gradient_surface", costs.gemm_input_gradient_surface},
                     {"gemm_weight_gradient_surface", costs.gemm_weight_gradient_surface}};
  for (const auto& [key, surfaces] : gradients) {
    const Written written = by_type(key, surfaces, ReadSurface);
    for (DataType type : kDataTypes) {
      const auto at = static_cast<std::size_t>(type);
      if (!written[at] || forward[at]) continue;
      section.Report(key, "calibration.incomplete-surface",
                     fmt::format("products of gradients in {} were measured, those of the forward "
                                 "were not",
                                 Name(type)),
                     fmt::format("add gemm_surface.{}", Name(type)));
    }
  }
  by_type("attention_forward_surface", costs.attention_forward_surface, ReadCores);
  by_type("attention_backward_surface", costs.attention_backward_surface, ReadCores);
  costs.memory_curve = ReadCurve(section, "memory_curve", diagnostics);
  costs.optimizer_curve = ReadCurve(section, "optimizer_curve", diagnostics);
  releases = ReadReleases(section, costs, diagnostics);
  section.Finish();
  return costs;
}

calibration::CopyCurves ReadCopies(MappingReader& section, Diagnostics& diagnostics) {
  calibration::CopyCurves copies;
  copies.host_to_device = ReadCurve(section, "host_to_device", diagnostics);
  copies.device_to_host = ReadCurve(section, "device_to_host", diagnostics);
  copies.device_to_device = ReadCurve(section, "device_to_device", diagnostics);
  copies.both_ways = section.ReadDecimal("both_ways", Need::kOptional, {}).value_or(0);
  section.Finish();
  return copies;
}

calibration::Interference ReadInterference(const Node& node, Diagnostics& diagnostics) {
  calibration::Interference interference;
  MappingReader reader(node, diagnostics);
  const auto kernel =
      reader.ReadWord<Neighbour>("kernel", Need::kRequired,
                                 {{Name(Neighbour::kGemm), Neighbour::kGemm},
                                  {Name(Neighbour::kMemoryBound), Neighbour::kMemoryBound}});
  interference.kernel = kernel.value_or(Neighbour::kGemm);
  interference.collective = ReadCollectiveKind(reader).value_or(CollectiveKind::kAllReduce);
  interference.kernel_slowdown =
      reader.ReadDecimal("kernel_slowdown", Need::kRequired, {}).value_or(1);
  interference.collective_slowdown =
      reader.ReadDecimal("collective_slowdown", Need::kRequired, {}).value_or(1);
  reader.Finish();
  return interference;
}

std::vector<calibration::Residual> ReadResiduals(MappingReader& section) {
  std::vector<calibration::Residual> residuals;
  const auto entries = section.node().entries();  // the reader keeps views of the keys
  for (const auto& [name, value] : entries) {
    auto entry = section.ReadMapping(name, Need::kOptional);
    if (!entry) continue;
    residuals.push_back({name, Decimal(*entry, "spread"), Decimal(*entry, "interpolation")});
    entry->Finish();
  }
  section.Finish();
  return residuals;
}

calibration::LinkCosts ReadLinks(MappingReader& section) {
  calibration::LinkCosts costs;
  costs.nvlink_efficiency = Decimal(section, "nvlink_efficiency");
  costs.pcie_efficiency = Decimal(section, "pcie_efficiency");
  costs.network_efficiency = Decimal(section, "network_efficiency");
  costs.jitter = section.ReadDecimal("jitter", Need::kOptional, {}).value_or(0);
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

calibration::CollectiveLaw ReadCollectiveLaw(MappingReader& section) {
  constexpr DecimalRange kStretch = {0, 1000};
  constexpr DecimalRange kEfficiency = {0.01, 2};
  calibration::CollectiveLaw law;
  law.launch = Duration(section, "launch");
  for (calibration::WireClass wire : calibration::kWireClasses) {
    auto figures = section.ReadMapping(Name(wire), Need::kRequired);
    if (!figures) continue;
    calibration::CollectiveLaw::Ramp& ramp = law.ramp[static_cast<std::size_t>(wire)];
    ramp.stretch = figures->ReadDecimal("stretch", Need::kRequired, kStretch).value_or(0);
    const auto half = figures->ReadBytes("half", Need::kRequired, Zero::kRefused);
    ramp.half = half ? static_cast<double>(half->count()) : 1;
    ramp.efficiency = figures->ReadDecimal("efficiency", Need::kRequired, kEfficiency).value_or(1);
    figures->Finish();
  }
  section.Finish();
  return law;
}

// The files that a profile names under `curves`.
std::vector<std::shared_ptr<const calibration::CurveFile>> ReadCurveFiles(
    MappingReader& reader, Diagnostics& diagnostics) {
  std::vector<std::shared_ptr<const calibration::CurveFile>> files;
  const auto names = reader.ReadSequence("curves", Need::kOptional);
  if (!names) return files;
  for (const Node& node : *names) {
    const auto name = ReadText(node, diagnostics);
    if (!name) continue;
    const std::optional<std::string> path = FindInput(*name, FolderOf(node.file()));
    if (!path) {
      diagnostics.push_back({"file.not-found", node.location(),
                             fmt::format("{} names a file that does not exist: {}",
                                         Quoted(node.path()), Quoted(*name)),
                             PlacesTried(*name, FolderOf(node.file()))});
      continue;
    }
    auto file = LoadCurves(*path);
    if (file) {
      files.push_back(std::make_shared<const calibration::CurveFile>(*std::move(file)));
    } else {
      diagnostics.insert(diagnostics.end(), file.error().begin(), file.error().end());
    }
  }
  return files;
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

std::pair<Time, Time> ReadQuantiles(const Node& node, Diagnostics& diagnostics) {
  const std::vector<Node> row = RowOf(node, 2, "two times", "[12.9 ms, 13.4 ms]", diagnostics);
  if (row.empty()) return {Picoseconds(1), Picoseconds(1)};
  const auto low = ReadTime(row[0], Zero::kAllowed, diagnostics);
  const auto high = ReadTime(row[1], Zero::kAllowed, diagnostics);
  if (!low || !high) return {Picoseconds(1), Picoseconds(1)};
  return {*low, *high};
}

// A table as far as it can be read. What cannot be stands as something plausible, so that the rest
// can still be checked; the diagnostics keep the profile from being used.
CollectiveTable ReadTable(const Node& node, int index, Diagnostics& diagnostics) {
  CollectiveTable table;
  table.location = node.location();
  MappingReader reader(node, diagnostics);
  const auto kind = ReadCollectiveKind(reader);
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
    ReadPoints(*points, table.points, diagnostics);
  }
  if (const auto quantiles = reader.ReadSequence("quantiles", Need::kOptional)) {
    for (const Node& node : *quantiles) table.quantiles.push_back(ReadQuantiles(node, diagnostics));
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
    const auto [at, there] = Follow(node, FieldOf(std::move(fault.field)));
    if (!there || reported(at.location())) continue;
    diagnostics.push_back({"calibration.implausible", at.location(), std::move(fault.message),
                           std::move(fault.hint)});
  }
}

}  // namespace

// The file that a profile names under `frameworks`.
std::shared_ptr<const calibration::FrameworkCosts> ReadFrameworks(MappingReader& reader,
                                                                  Diagnostics& diagnostics) {
  const auto node = reader.ReadNode("frameworks", Need::kOptional, "a path");
  if (!node) return nullptr;
  const auto name = ReadText(*node, diagnostics);
  if (!name) return nullptr;
  const std::optional<std::string> path = FindInput(*name, FolderOf(node->file()));
  if (!path) {
    diagnostics.push_back({"file.not-found", node->location(),
                           fmt::format("{} names a file that does not exist: {}",
                                       Quoted(node->path()), Quoted(*name)),
                           PlacesTried(*name, FolderOf(node->file()))});
    return nullptr;
  }
  auto costs = LoadFrameworkCosts(*path);
  if (costs) return std::make_shared<const calibration::FrameworkCosts>(*std::move(costs));
  diagnostics.insert(diagnostics.end(), costs.error().begin(), costs.error().end());
  return nullptr;
}

std::optional<Calibration> ReadCalibration(const Node& node, Diagnostics& diagnostics) {
  MappingReader reader(node, diagnostics);
  Calibration calibration;
  calibration.location = node.location();
  calibration.name = reader.ReadText("name", Need::kRequired).value_or("");
  calibration.provenance = ReadProvenance(reader, diagnostics);
  if (auto section = reader.ReadMapping("kernels", Need::kOptional)) {
    calibration.kernels = ReadKernels(*section, calibration.kernel_releases, diagnostics);
  }
  if (auto section = reader.ReadMapping("host", Need::kOptional)) {
    calibration.dispatch = ReadDispatchCosts(*section);
    section->Finish();
  }
  calibration.frameworks = ReadFrameworks(reader, diagnostics);
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
  calibration.curves = ReadCurveFiles(reader, diagnostics);
  if (auto section = reader.ReadMapping("collective_law", Need::kOptional)) {
    calibration.collective_law = ReadCollectiveLaw(*section);
  }
  if (auto section = reader.ReadMapping("copies", Need::kOptional)) {
    calibration.copies = ReadCopies(*section, diagnostics);
  }
  if (const auto entries = reader.ReadSequence("interference", Need::kOptional)) {
    for (const Node& entry : *entries) {
      calibration.interference.push_back(ReadInterference(entry, diagnostics));
    }
  }
  if (auto section = reader.ReadMapping("residuals", Need::kOptional)) {
    calibration.residuals = ReadResiduals(*section);
  }
  if (auto section = reader.ReadMapping("runs", Need::kOptional)) {
    calibration.runs = ReadLearnedRuns(*section);
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
