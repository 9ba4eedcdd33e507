#include "src/calibration/plausible.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "src/base/data_type.h"
#include "src/base/quantity.h"

namespace stepcast::calibration {
namespace {

constexpr Time kLongestStart = Milliseconds(1);
constexpr Time kLongestOverhead = Milliseconds(100);
constexpr Bytes kLargestMemory = GiB(1024);
// Products reach half of their best rate below this size on any device: 100 Tflop take a tenth of a
// second on the fastest one.
constexpr double kLargestHalfFlops = 1e14;
constexpr double kLongestHalfLength = 1e5;
constexpr double kMostRows = 4096;
constexpr double kLongestTail = 4;
constexpr double kLargestFill = 1e5;
// Beyond this exponent the longer of two times counts; with so much traffic no product is divided.
constexpr double kLargestOverlap = 100;
constexpr double kLargestSplit = 1000;
constexpr double kMostVariation = 0.2;
constexpr double kMostJitter = 1;
constexpr double kMostWatts = 1e5;
constexpr double kScatter = 0.8;
// Concurrent operations scatter, but hardly run faster.
constexpr double kLeastSlowdown = 0.5;
constexpr double kMostSlowdown = 1000;

class Checker {
 public:
  void Efficiency(std::string field, double value) {
    if (value > 0 && value <= 1) return;  // also rejects NaN
    Add(std::move(field), fmt::format("an efficiency must be above 0 and at most 1: {}", value),
        "write the reached fraction of the peak: 0.75 for 75 %");
  }

  void Jitter(std::string field, double value) {
    if (value >= 0 && value <= kMostJitter) return;
    Add(std::move(field), fmt::format("must be between 0 and {}: {}", kMostJitter, value),
        "write the standard deviation of times divided by their mean: 0.02 for 2 %");
  }

  void Duration(std::string field, Time value, Time longest) {
    if (value >= Time() && value <= longest) return;
    Add(std::move(field),
        fmt::format("must be between 0 and {}: {}", FormatTime(longest), FormatTime(value)),
        "check the unit");
  }

  void Size(std::string field, Bytes value) {
    if (value >= Bytes() && value <= kLargestMemory) return;
    Add(std::move(field),
        fmt::format("must be between 0 and {}: {}", FormatBytes(kLargestMemory),
                    FormatBytes(value)),
        "check the unit");
  }

  void Add(std::string field, std::string message, std::string hint) {
    faults_.push_back({std::move(field), std::move(message), std::move(hint)});
  }

  std::vector<Fault> Take() { return std::move(faults_); }

 private:
  std::vector<Fault> faults_;
};

void CheckTilings(const KernelCosts& kernels, Checker& checker) {
  for (DataType type : kDataTypes) {
    const GemmTiling& tiling = kernels.gemm_tiling[static_cast<std::size_t>(type)];
    if (tiling.empty()) continue;
    const std::string field = fmt::format("kernels.gemm.{}", Name(type));
    for (std::size_t i = 0; i < tiling.tiles.size(); ++i) {
      checker.Efficiency(fmt::format("{}.tiles[{}]", field, i), tiling.tiles[i].efficiency);
    }
    if (!(tiling.fill >= 0 && tiling.fill <= kLargestFill)) {
      checker.Add(field + ".fill",
                  fmt::format("must be between 0 and {}: {}", kLargestFill, tiling.fill),
                  "write the inner dimension k for which a matrix multiplication takes as long as "
                  "filling the kernel's pipeline");
    }
    if (!(tiling.last_wave >= 0 && tiling.last_wave <= 1)) {
      checker.Add(field + ".last_wave",
                  fmt::format("must be between 0 and 1: {}", tiling.last_wave),
                  "write 1 if a partial last wave takes as long as a full wave. Write 0 if the "
                  "time of a partial wave is proportional to its number of tiles. Numbers between "
                  "0 and 1 are also allowed");
    }
    checker.Efficiency(field + ".grouped", tiling.grouped);
    if (!(tiling.overlap == 0 || (tiling.overlap >= 1 && tiling.overlap <= kLargestOverlap))) {
      checker.Add(
          field + ".overlap",
          fmt::format("the value must be 0, or between 1 and {}: {}", kLargestOverlap,
                      tiling.overlap),
          "write 1 if memory traffic adds to the time of matrix multiplications, or 0 if memory "
          "traffic and matrix multiplications overlap");
    }
    if (!(tiling.split >= 0 && tiling.split <= kLargestSplit)) {
      checker.Add(field + ".split",
                  fmt::format("must be between 0 and {}: {}", kLargestSplit, tiling.split),
                  "write the memory traffic of adding split-K partial sums, divided by the traffic "
                  "of writing and reading each FP32 partial sum once");
    }
    checker.Duration(field + ".start", tiling.start, kLongestStart);
  }
}

void CheckAttention(const KernelCosts& kernels, Checker& checker) {
  for (std::size_t i = 0; i < kernels.attention.size(); ++i) {
    const AttentionEfficiency& attention = kernels.attention[i];
    if (attention == AttentionEfficiency()) continue;
    const std::string field = fmt::format("kernels.attention.{}", kFusedNames[i]);
    checker.Efficiency(field + ".forward", attention.forward);
    checker.Efficiency(field + ".backward", attention.backward);
    for (const auto& [key, half] :
         {std::pair("forward_half_length", attention.forward_half_length),
          {"backward_half_length", attention.backward_half_length},
          {"forward_unshared_length", attention.forward_unshared_length}}) {
      if (half >= 0 && half <= kLongestHalfLength) continue;
      checker.Add(fmt::format("{}.{}", field, key),
                  fmt::format("must be between 0 and {}: {}", kLongestHalfLength, half),
                  "write the sequence length, in tokens, at which attention reaches half of the "
                  "highest speed");
    }
    for (const auto& [key, rows] : {std::pair("forward_rows", attention.forward_rows),
                                    {"backward_rows", attention.backward_rows}}) {
      if (rows >= 1 && rows <= kMostRows) continue;
      checker.Add(fmt::format("{}.{}", field, key),
                  fmt::format("must be between 1 and {}: {}", kMostRows, rows),
                  "write the number of queries (or keys) of a head that one thread block computes, "
                  "usually 64 to 256");
    }
    for (const auto& [key, tail] : {std::pair("forward_tail", attention.forward_tail),
                                    {"backward_tail", attention.backward_tail}}) {
      if (tail >= 0 && tail <= kLongestTail) continue;
      checker.Add(fmt::format("{}.{}", field, key),
                  fmt::format("must be between 0 and {}: {}", kLongestTail, tail),
                  "write the duration of the last phase, in which the device is only partly busy, "
                  "divided by the time of the longest thread block");
    }
    for (const auto& [key, part] :
         {std::pair("head_64", attention.head_64), {"head_256", attention.head_256}}) {
      if (part > 0 && part * std::max(attention.forward, attention.backward) <= 1) continue;
      checker.Add(fmt::format("{}.{}", field, key),
                  fmt::format("with the rate {}, attention of this head size would exceed the "
                              "GPU's peak, or would have speed zero",
                              part),
                  "write the rate of attention with this head size, divided by the rate with head "
                  "size 128");
    }
  }
}

// Checks fractions of rates by operand alignment and access pattern.
void CheckParts(const KernelCosts& kernels, Checker& checker) {
  for (const auto& [key, part] : {std::pair("gemm_unaligned", kernels.gemm_unaligned),
                                  {"gemm_unaligned_even", kernels.gemm_unaligned_even},
                                  {"gemm_unaligned_result", kernels.gemm_unaligned_result}}) {
    if (part >= 0 && part <= 1) continue;
    checker.Add(fmt::format("kernels.{}", key), fmt::format("must be between 0 and 1: {}", part),
                "write the rate of unaligned matrix multiplications, divided by the rate of "
                "aligned matrix multiplications");
  }
  for (std::size_t i = 0; i < kernels.batched_unaligned.size(); ++i) {
    for (DataType type : kDataTypes) {
      const double part = kernels.batched_unaligned[i].rate[static_cast<std::size_t>(type)];
      if (part >= 0 && part <= 1) continue;
      checker.Add(fmt::format("kernels.batched_unaligned[{}].{}", i, Name(type)),
                  fmt::format("must be between 0 and 1: {}", part),
                  "write the rate of unaligned batched matrix multiplications, divided by the rate "
                  "of aligned batched matrix multiplications");
    }
  }
  for (std::size_t i = 0; i < kAccessCount; ++i) {
    if (kernels.traffic[i] >= 0 && kernels.traffic[i] <= 1) continue;
    checker.Add(fmt::format("kernels.traffic.{}", kAccessNames[i]),
                fmt::format("must be between 0 and 1: {}", kernels.traffic[i]),
                "write the bandwidth of kernels with this kind of memory access, divided by the "
                "reached memory bandwidth");
  }
}

void CheckDevices(const KernelCosts& kernels, Checker& checker) {
  if (!(kernels.variation >= 0 && kernels.variation <= kMostVariation)) {
    checker.Add("kernels.variation",
                fmt::format("must be between 0 and {}: {}", kMostVariation, kernels.variation),
                "write the standard deviation of kernel times across devices, divided by a typical "
                "kernel time");
  }
  checker.Jitter("kernels.jitter", kernels.jitter);
  const PowerDraw& power = kernels.power;
  if (power != PowerDraw() &&
      !(power.idle >= 0 && power.idle <= kMostWatts && power.products > 0 &&
        power.products <= kMostWatts && power.memory <= kMostWatts &&
        *std::max_element(power.of_type.begin(), power.of_type.end()) <= kMostWatts)) {
    checker.Add("kernels.power",
                fmt::format("each power must be between 0 and {} W: the idle power is {} W, "
                            "matrix multiplications add {} W, and memory traffic needs {} W",
                            kMostWatts, power.idle, power.products, power.memory),
                "check the unit");
  }
  if (power.memory != 0 && power.memory < power.idle) {
    checker.Add("kernels.power.memory_watts",
                fmt::format("the power during memory traffic, {} W, is less than the idle power, "
                            "{} W",
                            power.memory, power.idle),
                "write the total power of the device, including the idle power");
  }
}

void CheckKernels(const KernelCosts& kernels, Checker& checker) {
  for (DataType type : kDataTypes) {
    const GemmEfficiency& gemm = kernels.gemm[static_cast<std::size_t>(type)];
    if (gemm == GemmEfficiency()) continue;
    const std::string field = fmt::format("kernels.gemm.{}", Name(type));
    checker.Efficiency(field + ".max_efficiency", gemm.max_efficiency);
    if (!(gemm.half_flops >= 0 && gemm.half_flops <= kLargestHalfFlops)) {
      checker.Add(
          field + ".half_flops",
          fmt::format("must be between 0 and {:.0e} flops: {}", kLargestHalfFlops, gemm.half_flops),
          "write the size of a matrix multiplication, in FLOPs, that reaches half of the highest "
          "speed");
    }
  }
  CheckTilings(kernels, checker);
  CheckAttention(kernels, checker);
  CheckParts(kernels, checker);
  CheckDevices(kernels, checker);
  checker.Duration("kernels.token_sum_time", kernels.token_sum_time, kLongestStart);
  const std::pair<std::string_view, double> efficiencies[] = {
      {"attention_forward_efficiency", kernels.attention_forward_efficiency},
      {"attention_backward_efficiency", kernels.attention_backward_efficiency},
      {"memory_efficiency", kernels.memory_efficiency},
  };
  for (const auto& [key, value] : efficiencies) {
    if (value == 0 && kernels.measured()) continue;  // left out
    if (value == 0 && key.starts_with("attention_") && kernels.attention[1].forward != 0) continue;
    checker.Efficiency(fmt::format("kernels.{}", key), value);
  }
  checker.Duration("kernels.start_latency", kernels.start_latency, kLongestStart);
  checker.Duration("kernels.launch", kernels.launch, kLongestOverhead);
  checker.Duration("kernels.collective_launch", kernels.collective_launch, kLongestOverhead);
}

void CheckLinks(const LinkCosts& links, Checker& checker) {
  checker.Jitter("links.jitter", links.jitter);
  checker.Efficiency("links.nvlink_efficiency", links.nvlink_efficiency);
  checker.Efficiency("links.pcie_efficiency", links.pcie_efficiency);
  checker.Efficiency("links.network_efficiency", links.network_efficiency);
  const std::pair<std::string_view, Time> times[] = {
      {"ring_base", links.ring_base},
      {"tree_base", links.tree_base},
      {"ring_nvlink_hop", links.ring_nvlink_hop},
      {"ring_pcie_hop", links.ring_pcie_hop},
      {"ring_network_hop", links.ring_network_hop},
      {"tree_nvlink_hop", links.tree_nvlink_hop},
      {"tree_pcie_hop", links.tree_pcie_hop},
      {"tree_network_hop", links.tree_network_hop},
  };
  for (const auto& [key, time] : times) {
    checker.Duration(fmt::format("links.{}", key), time, kLongestOverhead);
  }
}

void CheckMemory(const MemoryCosts& memory, Checker& checker) {
  checker.Size("memory.context", memory.context);
  checker.Size("memory.first_communicator", memory.first_communicator);
  checker.Size("memory.next_communicator", memory.next_communicator);
  checker.Size("memory.gemm_workspace", memory.gemm_workspace);
}

// Checks that sizes ascend and that times do not collapse.
void CheckCurve(const Curve& points, const std::string& field, Checker& checker) {
  Bytes largest;
  Time longest;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [size, time] = points[i];
    const std::string point = fmt::format("{}[{}]", field, i);
    if (size <= Bytes()) {
      checker.Add(point, fmt::format("a size must be positive: {}", FormatBytes(size)), "");
    } else if (size <= largest) {
      checker.Add(
          point,
          fmt::format("sizes must ascend: {} after {}", FormatBytes(size), FormatBytes(largest)),
          "sort the points by size and remove duplicates");
    }
    if (time <= Time()) {
      checker.Add(point, fmt::format("a time must be positive: {}", FormatTime(time)), "");
    } else if (time.seconds() < kScatter * longest.seconds()) {
      checker.Add(point,
                  fmt::format("the time of a larger size is much shorter than the time of a "
                              "smaller size: {} after {}",
                              FormatTime(time), FormatTime(longest)),
                  "check the units; if the units are right, repeat the measurement");
    }
    largest = std::max(largest, size);
    longest = std::max(longest, time);
  }
}

void CheckCores(const AttentionSurface& surface, const std::string& field, Checker& checker) {
  for (const AttentionCurve& curve : surface) {
    Time longest;
    std::int64_t before = 0;
    for (const auto& [sequence, time] : curve.points) {
      if (curve.head_size < 1 || curve.heads < 1 || sequence <= before || time <= Time()) {
        checker.Add(field,
                    "sizes and times of attention must be positive, and each size must occur once",
                    "");
        return;
      }
      before = sequence;
      if (time.seconds() < kScatter * longest.seconds()) {
        checker.Add(field,
                    fmt::format("the time of a longer sequence is much shorter than the time of a "
                                "shorter sequence: {} after {} ({} heads of size {}, sequence "
                                "length {})",
                                FormatTime(time), FormatTime(longest), curve.heads, curve.head_size,
                                sequence),
                    "check the units; if the units are right, repeat the measurement");
        return;
      }
      longest = std::max(longest, time);
    }
  }
}

void CheckSurface(const GemmSurface& surface, const std::string& field, Checker& checker) {
  for (const auto* axis : {&surface.m, &surface.n, &surface.k}) {
    if (axis->empty() || axis->front() < 1 ||
        std::adjacent_find(axis->begin(), axis->end(), std::greater_equal<>()) != axis->end()) {
      checker.Add(field, "the sizes of matrix multiplications must be positive", "");
      return;
    }
  }
  if (std::any_of(surface.times.begin(), surface.times.end(),
                  [](Time time) { return time <= Time(); })) {
    checker.Add(field, "the time of a matrix multiplication must be positive", "");
  }
}

void CheckMeasuredKernels(const KernelCosts& kernels, Checker& checker) {
  for (DataType type : kDataTypes) {
    const auto at = static_cast<std::size_t>(type);
    const std::pair<const char*, const GemmSurface&> products[] = {
        {"gemm_surface", kernels.gemm_surface[at]},
        {"gemm_input_gradient_surface", kernels.gemm_input_gradient_surface[at]},
        {"gemm_weight_gradient_surface", kernels.gemm_weight_gradient_surface[at]},
    };
    for (const auto& [key, surface] : products) {
      if (surface.empty()) continue;
      CheckSurface(surface, fmt::format("kernels.{}.{}", key, Name(type)), checker);
    }
    CheckCores(kernels.attention_forward_surface[at],
               fmt::format("kernels.attention_forward_surface.{}", Name(type)), checker);
    CheckCores(kernels.attention_backward_surface[at],
               fmt::format("kernels.attention_backward_surface.{}", Name(type)), checker);
  }
  CheckCurve(kernels.memory_curve, "kernels.memory_curve", checker);
  CheckCurve(kernels.optimizer_curve, "kernels.optimizer_curve", checker);
}

void CheckSlowdown(const std::string& field, double value, Checker& checker) {
  if (value >= kLeastSlowdown && value <= kMostSlowdown) return;
  checker.Add(field,
              fmt::format("must be between {} and {}: {}", kLeastSlowdown, kMostSlowdown, value),
              "write the concurrent time divided by the uncontended time: 1.1 for 10 % longer");
}

void CheckCopies(const CopyCurves& copies, Checker& checker) {
  CheckCurve(copies.host_to_device, "copies.host_to_device", checker);
  CheckCurve(copies.device_to_host, "copies.device_to_host", checker);
  CheckCurve(copies.device_to_device, "copies.device_to_device", checker);
  if (copies.both_ways != 0) CheckSlowdown("copies.both_ways", copies.both_ways, checker);
}

void CheckInterference(const std::vector<Interference>& interference, Checker& checker) {
  for (std::size_t i = 0; i < interference.size(); ++i) {
    const std::string field = fmt::format("interference[{}]", i);
    CheckSlowdown(field + ".kernel_slowdown", interference[i].kernel_slowdown, checker);
    CheckSlowdown(field + ".collective_slowdown", interference[i].collective_slowdown, checker);
  }
}

void CheckQuantiles(const CollectiveTable& table, const std::string& field, Checker& checker) {
  if (table.quantiles.empty()) return;
  if (table.quantiles.size() != table.points.size()) {
    checker.Add(field + ".quantiles",
                fmt::format("quantiles must have one pair of times for each of the {} points, but "
                            "have {} pairs",
                            table.points.size(), table.quantiles.size()),
                "");
  }
  for (std::size_t i = 0; i < table.quantiles.size(); ++i) {
    const auto& [low, high] = table.quantiles[i];
    if (low > Time() && low <= high) continue;
    checker.Add(fmt::format("{}.quantiles[{}]", field, i),
                fmt::format("each pair of quantiles must have two positive times, in ascending "
                            "order: {}, {}",
                            FormatTime(low), FormatTime(high)),
                "write the 10th and the 90th percentile of the times");
  }
}

void CheckTables(const std::vector<CollectiveTable>& tables, Checker& checker) {
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const CollectiveTable& table = tables[i];
    const std::string field = fmt::format("collectives[{}]", i);
    if (table.ranks < 2) {
      checker.Add(field + ".ranks",
                  fmt::format("a collective must have at least 2 ranks, not {}", table.ranks), "");
    }
    if (table.nodes < 1 || table.nodes > std::max(table.ranks, 1)) {
      checker.Add(field + ".nodes",
                  fmt::format("the number of nodes must be between 1 and the "
                              "number of ranks: {}",
                              table.nodes),
                  "");
    }
    if (table.points.empty()) {
      checker.Add(field + ".points", "a table needs at least one point", "write [[1 MiB, 1 ms]]");
    }
    CheckCurve(table.points, field + ".points", checker);
    CheckQuantiles(table, field, checker);
    for (std::size_t j = 0; j < i; ++j) {
      if (tables[j].collective == table.collective && tables[j].ranks == table.ranks &&
          tables[j].nodes == table.nodes) {
        checker.Add(field,
                    fmt::format("there is already a table for {} over {} ranks on {} nodes",
                                Name(table.collective), table.ranks, table.nodes),
                    "move the points of both tables into one table");
        break;
      }
    }
  }
}

}  // namespace

std::vector<Fault> Check(const Calibration& calibration) {
  Checker checker;
  if (calibration.kernels) {
    CheckKernels(*calibration.kernels, checker);
    CheckMeasuredKernels(*calibration.kernels, checker);
  }
  for (std::size_t i = 0; i < calibration.kernel_releases.size(); ++i) {
    Checker of_release;
    CheckKernels(calibration.kernel_releases[i].costs, of_release);
    constexpr std::string_view kSection = "kernels";
    for (Fault& fault : of_release.Take()) {
      fault.field = fmt::format("kernels.releases[{}]{}", i, fault.field.substr(kSection.size()));
      checker.Add(std::move(fault.field), std::move(fault.message), std::move(fault.hint));
    }
  }
  for (const auto& [framework, dispatch] : calibration.dispatch) {
    const std::string field = "host.dispatch." + framework;
    checker.Duration(field + ".module", dispatch.module, kLongestOverhead);
    checker.Duration(field + ".autograd", dispatch.autograd, kLongestOverhead);
  }
  if (calibration.links) CheckLinks(*calibration.links, checker);
  if (calibration.memory) CheckMemory(*calibration.memory, checker);
  CheckTables(calibration.collectives, checker);
  CheckCopies(calibration.copies, checker);
  CheckInterference(calibration.interference, checker);
  return checker.Take();
}

}  // namespace stepcast::calibration
