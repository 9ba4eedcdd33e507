
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/scenario/calibration_file.h"

namespace stepcast::scenario {
namespace {

// Whether the section has measured times, which make efficiencies optional.
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
                             fmt::format("{} must list the two sizes of a tile, and an efficiency, "
                                         "but is {}",
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
    figures.Report("tiles", "calibration.no-points", "list at least one tile for each data type",
                   "write for example 'tiles: [[256, 128, 0.89], [128, 128, 0.85]]'");
  }
  figures.Required("fill", tiling.fill);
  figures.Optional("add_fill", tiling.add_fill);
  figures.Optional("last_wave", tiling.last_wave);
  figures.Optional("grouped", tiling.grouped);
  figures.Optional("overlap", tiling.overlap);
  figures.Optional("split", tiling.split);
  figures.Required("start", tiling.start);
  return tiling;
}

void ReadAttention(MappingReader& kernels, calibration::KernelCosts& costs) {
  const auto read = [](MappingReader& figures, calibration::AttentionEfficiency& attention) {
    const auto tokens = [&](std::string_view key, double& value) {
      const auto given = figures.ReadInteger(key, Need::kOptional, {});
      if (given) value = static_cast<double>(*given);
    };
    // A release replaces all figures of the release before, but for these two.
    attention = {.forward_rows = attention.forward_rows, .backward_rows = attention.backward_rows};
    figures.Required("forward", attention.forward);
    figures.Required("backward", attention.backward);
    tokens("forward_half_length", attention.forward_half_length);
    tokens("backward_half_length", attention.backward_half_length);
    tokens("forward_rows", attention.forward_rows);
    tokens("backward_rows", attention.backward_rows);
    figures.Optional("forward_tail", attention.forward_tail);
    figures.Optional("backward_tail", attention.backward_tail);
    figures.Optional("head_64", attention.head_64);
    figures.Optional("head_256", attention.head_256);
    tokens("forward_window_length", attention.forward_window_length);
    tokens("forward_unshared_length", attention.forward_unshared_length);
    figures.Optional("forward_start", attention.forward_start);
  };
  kernels.Section("attention", Need::kOptional, [&](MappingReader& section) {
    for (std::size_t i = 0; i < costs.attention.size(); ++i) {
      section.Section(calibration::kFusedNames[i], Need::kOptional,
                      [&](MappingReader& figures) { read(figures, costs.attention[i]); });
    }
  });
}

void ReadPower(MappingReader& kernels, calibration::KernelCosts& costs) {
  kernels.Section("power", Need::kOptional, [&](MappingReader& section) {
    costs.power = {};
    section.Required("idle_watts", costs.power.idle);
    section.Required("products_watts", costs.power.products);
    section.Optional("memory_watts", costs.power.memory);
    // Indexed by DataType. The reader keeps views of keys.
    constexpr std::string_view kWatts[] = {"fp32_watts", "bf16_watts",  "fp16_watts", "fp8_watts",
                                           "tf32_watts", "mxfp8_watts", "nvfp4_watts"};
    static_assert(std::size(kWatts) == kDataTypeCount);
    for (std::size_t type = 0; type < kDataTypeCount; ++type) {
      section.Optional(kWatts[type], costs.power.of_type[type]);
    }
  });
}

void ReadTraffic(MappingReader& kernels, calibration::KernelCosts& costs) {
  kernels.Section("traffic", Need::kOptional, [&](MappingReader& section) {
    for (std::size_t i = 0; i < kAccessCount; ++i) {
      if (static_cast<Access>(i) == Access::kPlain) continue;
      section.Optional(kAccessNames[i], costs.traffic[i]);
    }
  });
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
    release.Optional("torch", batches.torch, "2.11");
    for (DataType type : kDataTypes) {
      release.Optional(Name(type), batches.rate[static_cast<std::size_t>(type)]);
    }
    release.Finish();
    if (diagnostics.size() == before && batches.rate == calibration::UnalignedBatches().rate) {
      diagnostics.push_back({"calibration.no-points", node.location(),
                             "an entry of batched_unaligned needs a rate for at least one data "
                             "type",
                             "write for example 'fp16: 0.65'"});
    }
    const auto older = std::find_if(
        costs.batched_unaligned.begin(), costs.batched_unaligned.end(),
        [&](const calibration::UnalignedBatches& other) { return other.torch <= batches.torch; });
    if (older != costs.batched_unaligned.end() && older->torch == batches.torch) {
      diagnostics.push_back({"calibration.repeated-point", node.location(),
                             batches.torch == Version()
                                 ? "two entries have no key 'torch', but only one entry may omit "
                                   "the key 'torch'"
                                 : fmt::format("two entries have the same PyTorch release, 'torch' "
                                               "{}.{}",
                                               batches.torch.major, batches.torch.minor),
                             "write one entry for each PyTorch release"});
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
    // One form of a release replaces the other.
    costs.gemm[static_cast<std::size_t>(type)] = {};
    costs.gemm_tiling[static_cast<std::size_t>(type)] = {};
    if (figures->Has("tiles")) {
      costs.gemm_tiling[static_cast<std::size_t>(type)] = ReadTiling(*figures, diagnostics);
      figures->Finish();
      continue;
    }
    calibration::GemmEfficiency& efficiency = costs.gemm[static_cast<std::size_t>(type)];
    figures->Required("max_efficiency", efficiency.max_efficiency);
    efficiency.half_flops =
        static_cast<double>(figures->ReadInteger("half_flops", Need::kRequired, {}).value_or(0));
    if (efficiency.max_efficiency == 0 && !figures->failed()) {
      // Both being zero would mean "unknown", and Check() would accept it.
      figures->Report("max_efficiency", "calibration.implausible",
                      "an efficiency must be above 0 and at most 1: 0",
                      "remove the data type if its efficiency is unknown");
    }
    figures->Finish();
  }
  gemm->Finish();
  if (!any && !gemm->failed()) {
    kernels.Report("gemm", "calibration.no-gemm", "'gemm' must have at least one data type",
                   "write for example 'bf16: {max_efficiency: 0.75, half_flops: 3000000000}'");
  }
}

// `rates`: a file made by `calibrate import atlas` (calibration/rates). Its values apply unless the
// profile has its own.
void ReadRates(MappingReader& kernels, calibration::KernelCosts& costs, Diagnostics& diagnostics) {
  const auto named = kernels.ReadNode("rates", Need::kOptional, "a path");
  if (!named) return;
  const auto path = FindNamed(*named, diagnostics);
  if (!path) return;
  const std::optional<Node> root = ReadDocument(*path, diagnostics);
  if (!root) return;
  MappingReader reader(*root, diagnostics);
  reader.ReadText("name", Need::kRequired);
  reader.ReadText("source", Need::kRequired);
  ReadGemm(reader, Need::kOptional, costs, diagnostics);
  ReadAttention(reader, costs);
  ReadPower(reader, costs);
  reader.Finish();
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
        ItemsOfRow(node, 4, "the number of heads, the sequence length, the head size and a time",
                   "[128, 2048, 64, 310 us]", diagnostics);
    if (row.empty()) continue;
    const auto heads = ReadCount(row[0], diagnostics);
    const auto sequence = ReadCount(row[1], diagnostics);
    const auto head_size = ReadCount(row[2], diagnostics);
    const auto time = ReadTime(row[3], Zero::kRefused, diagnostics);
    if (!heads || !sequence || !head_size || !time) continue;
    if (!curves[{*head_size, *heads}].emplace(*sequence, *time).second) {
      diagnostics.push_back(
          {"calibration.repeated-point", node.location(),
           fmt::format("two rows have the same sizes: {} heads of size {}, sequence length {}",
                       *heads, *head_size, *sequence),
           "write one row for each combination of sizes"});
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

// The distinct values on an axis of a surface.
std::vector<std::int64_t> Axis(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::size_t PlaceOnAxis(const std::vector<std::int64_t>& axis, std::int64_t value) {
  return static_cast<std::size_t>(std::lower_bound(axis.begin(), axis.end(), value) - axis.begin());
}

// Rows [m, n, k, time] in any order; they must fill the grid of their values.
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
    const std::vector<Node> row =
        ItemsOfRow(node, 4, "the three sizes of a matrix multiplication and a time",
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
        fmt::format("a table of {} values of m, {} of n and {} of k must have {} rows, not {}",
                    surface.m.size(), surface.n.size(), surface.k.size(), wanted, points.size()),
        "write exactly one row for each combination of the values");
    return {};
  }
  surface.times.resize(wanted);
  for (const Point& point : points) {
    Time& time = surface.times[(PlaceOnAxis(surface.m, point.m) * surface.n.size() +
                                PlaceOnAxis(surface.n, point.n)) *
                                   surface.k.size() +
                               PlaceOnAxis(surface.k, point.k)];
    if (time != Time()) {
      diagnostics.push_back(
          {"calibration.incomplete-surface", point.location,
           fmt::format("two rows have the same sizes: {} x {} x {}", point.m, point.n, point.k),
           "write exactly one row for each combination of the values"});
      return {};
    }
    time = point.time;
  }
  return surface;
}

// `releases`, oldest first: the changes of each over the costs before.
std::vector<calibration::KernelRelease> ReadReleases(MappingReader& kernels,
                                                     const calibration::KernelCosts& before,
                                                     Diagnostics& diagnostics) {
  std::vector<calibration::KernelRelease> releases;
  const auto entries = kernels.ReadSequence("releases", Need::kOptional);
  for (const Node& node : entries.value_or(std::vector<Node>())) {
    MappingReader reader(node, diagnostics);
    const auto torch = reader.ReadVersion("torch", Need::kRequired, "2.11");
    calibration::KernelCosts costs = releases.empty() ? before : releases.back().costs;
    ReadRates(reader, costs, diagnostics);
    ReadGemm(reader, Need::kOptional, costs, diagnostics);
    ReadAttention(reader, costs);
    ReadPower(reader, costs);
    ReadTraffic(reader, costs);
    reader.Optional("gemm_unaligned", costs.gemm_unaligned);
    reader.Optional("gemm_unaligned_even", costs.gemm_unaligned_even);
    reader.Optional("gemm_unaligned_result", costs.gemm_unaligned_result);
    reader.Optional("memory_efficiency", costs.memory_efficiency);
    reader.Optional("token_sum_time", costs.token_sum_time);
    reader.Finish();
    if (!torch) continue;
    if (!releases.empty() && *torch <= releases.back().torch) {
      diagnostics.push_back(
          {"calibration.implausible", node.location(),
           fmt::format("PyTorch releases must be in ascending order: {}.{} after {}.{}",
                       torch->major, torch->minor, releases.back().torch.major,
                       releases.back().torch.minor),
           "sort the entries by release, because each entry has only the differences from the "
           "previous release"});
      continue;
    }
    releases.push_back({.torch = *torch, .costs = std::move(costs)});
  }
  return releases;
}

}  // namespace

std::vector<calibration::KernelRelease> ReadKernelCosts(MappingReader& section,
                                                        calibration::KernelCosts& costs) {
  Diagnostics& diagnostics = section.diagnostics();
  const bool measured = HasMeasurements(section);
  const Need need = measured ? Need::kOptional : Need::kRequired;
  ReadRates(section, costs, diagnostics);
  ReadGemm(section, section.Has("rates") ? Need::kOptional : need, costs, diagnostics);
  ReadAttention(section, costs);
  ReadPower(section, costs);
  ReadTraffic(section, costs);
  if (costs.attention[1].forward == 0) {
    section.Read("attention_forward_efficiency", need, costs.attention_forward_efficiency);
  }
  if (costs.attention[1].backward == 0) {
    section.Read("attention_backward_efficiency", need, costs.attention_backward_efficiency);
  }
  section.Optional("gemm_unaligned", costs.gemm_unaligned);
  section.Optional("gemm_unaligned_even", costs.gemm_unaligned_even);
  section.Optional("gemm_unaligned_result", costs.gemm_unaligned_result);
  ReadUnalignedBatches(section, costs, diagnostics);
  section.Read("memory_efficiency", need, costs.memory_efficiency);
  section.Optional("variation", costs.variation);
  section.Optional("jitter", costs.jitter);
  section.Optional("token_sum_time", costs.token_sum_time);
  section.Required("start_latency", costs.start_latency);
  section.Required("launch", costs.launch);
  // A profile that a single rank measured does not contain it.
  section.Read("collective_launch", need, costs.collective_launch);
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
      section.Report(
          key, "calibration.incomplete-surface",
          fmt::format(
              "matrix multiplications in {} have measured times for backward, but not for forward",
              Name(type)),
          fmt::format("add gemm_surface.{}", Name(type)));
    }
  }
  by_type("attention_forward_surface", costs.attention_forward_surface, ReadCores);
  by_type("attention_backward_surface", costs.attention_backward_surface, ReadCores);
  costs.memory_curve = ReadCurve(section, "memory_curve");
  costs.optimizer_curve = ReadCurve(section, "optimizer_curve");
  return ReadReleases(section, costs, diagnostics);
}

}  // namespace stepcast::scenario
