#include "src/calibration/profiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"

namespace stepcast::calibration {
const CollectiveTable* FindTable(const std::vector<CollectiveTable>& tables,
                                 CollectiveKind collective, int ranks, int nodes) {
  for (const CollectiveTable& table : tables) {
    if (table.collective == collective && table.ranks == ranks && table.nodes == nodes) {
      return &table;
    }
  }
  return nullptr;
}

const CollectiveTable* FindTableOfFlatCluster(const std::vector<CollectiveTable>& tables,
                                              CollectiveKind collective, int ranks) {
  const CollectiveTable* widest = nullptr;
  for (const CollectiveTable& table : tables) {
    if (table.collective != collective || table.ranks != ranks) continue;
    if (widest == nullptr || table.nodes > widest->nodes) widest = &table;
  }
  return widest;
}

std::optional<CollectiveTable> TableFromOtherRanks(const std::vector<CollectiveTable>& tables,
                                                   CollectiveKind collective, int ranks) {
  if (collective != CollectiveKind::kAllReduce && collective != CollectiveKind::kReduceScatter &&
      collective != CollectiveKind::kAllGather) {
    return std::nullopt;
  }
  const auto apart = [ranks](const CollectiveTable& table) {
    return std::abs(std::log2(static_cast<double>(table.ranks) / ranks));
  };
  const CollectiveTable* nearest = nullptr;
  for (const CollectiveTable& table : tables) {
    if (table.collective != collective || table.ranks < 2 || table.points.empty()) continue;
    if (nearest == nullptr || apart(table) < apart(*nearest)) nearest = &table;
  }
  if (nearest == nullptr) return std::nullopt;
  const auto [first_bytes, first_time] = nearest->points.front();
  const auto [last_bytes, last_time] = nearest->points.back();
  double start = 0;  // picoseconds
  if (last_bytes > first_bytes) {
    const double per_byte = static_cast<double>((last_time - first_time).picoseconds()) /
                            static_cast<double>((last_bytes - first_bytes).count());
    start = std::max(0.0, static_cast<double>(first_time.picoseconds()) -
                              per_byte * static_cast<double>(first_bytes.count()));
  }
  const double steps = static_cast<double>(ranks - 1) / (nearest->ranks - 1);
  const double wire = steps * nearest->ranks / ranks;
  CollectiveTable table = *nearest;
  table.ranks = table.nodes = ranks;
  table.quantiles.clear();
  for (auto& [bytes, time] : table.points) {
    const double moving = static_cast<double>(time.picoseconds()) - start;
    time = Picoseconds(std::llround(start * steps + moving * wire));
  }
  return table;
}

std::vector<std::string_view> MissingSections(const Calibration& profile) {
  std::vector<std::string_view> sections;
  if (!profile.kernels.has_value()) sections.emplace_back("kernels");
  if (!profile.links.has_value()) sections.emplace_back("links");
  if (!profile.memory.has_value()) sections.emplace_back("memory");
  return sections;
}

std::vector<std::string> FillFrom(const Calibration& defaults, Calibration& profile) {
  const std::vector<std::string_view> sections = MissingSections(profile);
  std::vector<std::string> taken(sections.begin(), sections.end());
  if (profile.kernels.has_value() && profile.kernels->measured() && defaults.kernels.has_value()) {
    const KernelCosts measured = *profile.kernels;
    for (std::string& key : Complete(*defaults.kernels, *profile.kernels)) {
      taken.push_back("kernels." + std::move(key));
    }
    for (const KernelRelease& release : defaults.kernel_releases) {
      profile.kernel_releases.push_back({release.torch, measured});
      Complete(release.costs, profile.kernel_releases.back().costs);
    }
  }
  if (!profile.kernels.has_value()) {
    profile.kernels = defaults.kernels;
    profile.kernel_releases = defaults.kernel_releases;
  }
  if (!profile.links.has_value()) {
    profile.links = defaults.links;
    profile.collective_law = defaults.collective_law;
    profile.curves = defaults.curves;
  }
  if (!profile.memory.has_value()) profile.memory = defaults.memory;
  if (profile.frameworks == nullptr) profile.frameworks = defaults.frameworks;
  for (const Residual& residual : defaults.residuals) {
    const bool general = residual.of == "source" || residual.of == "memory";
    const bool stated = std::any_of(profile.residuals.begin(), profile.residuals.end(),
                                    [&](const Residual& own) { return own.of == residual.of; });
    if (general && !stated) profile.residuals.push_back(residual);
  }
  return taken;
}

namespace {

// More than any present device's cache.
constexpr Bytes kBeyondCaches = MiB(256);

void CheckTraffic(const Curve& curve, const char* key, Bandwidth bandwidth,
                  std::vector<Fault>& faults) {
  for (const auto& [bytes, time] : curve) {
    if (bytes < kBeyondCaches || time >= bytes / bandwidth) continue;
    faults.push_back(
        {fmt::format("kernels.{}", key),
         fmt::format("the profile states that a kernel moves {} in {}, but the device's memory "
                     "bandwidth requires at least {}",
                     FormatBytes(bytes), FormatTime(time), FormatTime(bytes / bandwidth)),
         "check that the profile is for this device"});
    return;
  }
}

// `products` of queries and keys, half of each masked.
void CheckAttention(const AttentionSurface& surface, std::int64_t products,
                    const std::string& field, FlopRate peak, std::vector<Fault>& faults) {
  if (peak == FlopRate()) return;
  for (const AttentionCurve& curve : surface) {
    for (const auto& [sequence, time] : curve.points) {
      const Time least =
          TimeFor(products * curve.heads * sequence * sequence * curve.head_size, peak);
      if (time >= least) continue;
      faults.push_back(
          {field,
           fmt::format(
               "attention with {} heads of size {} and sequence length {} takes {}, but the "
               "device's peak requires at least {}",
               curve.heads, curve.head_size, sequence, FormatTime(time), FormatTime(least)),
           "check that the profile is for this device"});
      return;
    }
  }
}

}  // namespace

std::vector<Fault> CheckOnDevice(const KernelCosts& kernels, const DeviceSheet& sheet) {
  std::vector<Fault> faults;
  if (sheet.memory_bandwidth > Bandwidth()) {
    CheckTraffic(kernels.memory_curve, "memory_curve", sheet.memory_bandwidth, faults);
    CheckTraffic(kernels.optimizer_curve, "optimizer_curve", sheet.memory_bandwidth, faults);
  }
  for (DataType type : kDataTypes) {
    const auto at = static_cast<std::size_t>(type);
    CheckAttention(kernels.attention_forward_surface[at], 2,
                   fmt::format("kernels.attention_forward_surface.{}", Name(type)), sheet.peak[at],
                   faults);
    CheckAttention(kernels.attention_backward_surface[at], 5,
                   fmt::format("kernels.attention_backward_surface.{}", Name(type)), sheet.peak[at],
                   faults);
  }
  if (!sheet.separate) return faults;
  for (const auto& [key, time] :
       {std::pair("start_latency", kernels.start_latency), {"launch", kernels.launch}}) {
    if (time > Time()) continue;
    faults.push_back({fmt::format("kernels.{}", key),
                      fmt::format("the start time of a kernel on a GPU must be above zero: {}",
                                  FormatTime(time)),
                      "write a few microseconds, or measure the time with stepcast calibrate"});
  }
  return faults;
}

namespace {

constexpr FlopRate Gigaflops(std::int64_t n) { return FlopRate::FlopsPerSecond(n * 1'000'000'000); }

// Of several profiles of a compute capability (https://developer.nvidia.com/cuda-gpus), the one
// with the most measurements.
struct OfCapability {
  int compute_capability;
  StandIn stand_in;
};
constexpr OfCapability kByCapability[] = {
    {70, {"v100-sxm2-32gb", Gigaflops(125'000)}}, {80, {"a100-sxm-80gb", Gigaflops(312'000)}},
    {86, {"sm_86", Gigaflops(154'800)}},          {89, {"l40s", Gigaflops(362'000)}},
    {90, {"h100-sxm", Gigaflops(989'000)}},       {100, {"b200", Gigaflops(2'250'000)}},
    {103, {"b300", Gigaflops(2'250'000)}},        {120, {"sm_120", Gigaflops(209'500)}},
    {121, {"sm_120", Gigaflops(209'500)}},
};

// AMD's types: MI325X is an MI300X with more power and memory (both gfx942), MI355X is the next
// generation. Also types that another profile fits better than that of their compute capability.
struct OfName {
  std::string_view gpu;
  StandIn stand_in;
};
constexpr OfName kByName[] = {
    {"mi325x", {"mi300x", Gigaflops(1'307'000)}},
    {"mi355x", {"gfx950", Gigaflops(2'516'000)}},
    // The Workstation Edition has the same chip.
    {"rtx-pro-6000", {"rtx-pro-6000-server", Gigaflops(467'800)}},
};

PowerDraw Scaled(const PowerDraw& power, double ratio) {
  PowerDraw scaled = power;
  for (double* watts : {&scaled.idle, &scaled.products, &scaled.memory}) *watts *= ratio;
  for (double& watts : scaled.of_type) watts *= ratio;
  return scaled;
}

}  // namespace

std::optional<StandIn> StandInOf(std::string_view gpu, int compute_capability) {
  for (const OfName& known : kByName) {
    if (known.gpu == gpu) return known.stand_in;
  }
  for (const OfCapability& known : kByCapability) {
    if (known.compute_capability == compute_capability) return known.stand_in;
  }
  return std::nullopt;
}

Calibration AsStandIn(const Calibration& profile, const StandIn& stand_in, std::string_view gpu,
                      FlopRate peak) {
  const double ratio = static_cast<double>(peak.flops_per_second()) /
                       static_cast<double>(stand_in.peak.flops_per_second());
  Calibration of_gpu = profile;
  of_gpu.gpus.emplace_back(gpu);
  if (of_gpu.kernels) of_gpu.kernels->power = Scaled(of_gpu.kernels->power, ratio);
  for (KernelRelease& release : of_gpu.kernel_releases) {
    release.costs.power = Scaled(release.costs.power, ratio);
  }
  for (Residual& residual : of_gpu.residuals) {
    if (residual.of == "memory") continue;
    residual.spread *= kStandInResiduals;
    residual.interpolation *= kStandInResiduals;
  }
  return of_gpu;
}

}  // namespace stepcast::calibration
